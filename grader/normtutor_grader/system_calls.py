"""System calls that a submission has to do without, as a filter of the kernel's (seccomp).

The memory of a submission is counted as that of its process. Each call below would make the
kernel hold more for it elsewhere, where nobody counts, or lead past the filter. No exercise needs
one of them; a program that tries gets the error EPERM.
"""

import errno
import functools
import mmap
import signal
import tempfile

REFUSED = {
    "memory that no process has mapped": "memfd_create memfd_secret shmget",
    "queues and semaphores, half a gigabyte of either": "msgget semget",
    "buffers: 400 kB a socket; a page given to a pipe keeps 2 MB": "socket socketpair vmsplice",
    "64 kB with each file, or an entry for each that is watched": "setxattr lsetxattr fsetxattr "
    "setxattrat inotify_init inotify_init1 fanotify_init",
    "file systems of its own, which are memory": "mount fsopen unshare setns",
    "calls that no filter sees": "io_uring_setup io_uring_enter io_uring_register",
    "programs and counters in the kernel": "bpf perf_event_open",
    "the keys of whom the grader runs as": "add_key keyctl request_key",
    "a session, and with it one more share of the processor": "setsid",
    "rules and filters, of which there may be millions": "landlock_create_ruleset seccomp",
    "a table that all of the system shares": "io_setup",
    "processes, which come and go faster than anybody counts": "fork vfork",
}
# The newest, which an older libseccomp does not know by name; the number is that of every machine.
GROWS = 0x100  # MAP_GROWSDOWN
THREAD, FILES = 0x10000, 0x400  # CLONE_THREAD, CLONE_FILES
LOCKS = (6, 7, 37, 38)  # of a part of a file: F_SETLK, F_SETLKW, and those of an open file
NEWER = 48  # than the last option of prctl that the way behind the wall needs
INT = 2**32 - 1  # what the kernel reads of an int; the filter sees 64 bits
NUMBERS = {"memfd_secret": 447, "landlock_create_ruleset": 444, "setxattrat": 463}


@functools.cache
def program() -> bytes:
    """The filter, as the kernel and bubblewrap read it.

    Calls by the numbers of another machine (32 bits, x32) end the process.

    Raises
    ------
    ImportError, RuntimeError
        If libseccomp is missing here.
    """
    import pyseccomp  # here, since it is missing on macOS

    rules, refuse = pyseccomp.SyscallFilter(pyseccomp.ALLOW), pyseccomp.ERRNO(errno.EPERM)
    for name in " ".join(REFUSED.values()).split():
        rules.add_rule(refuse, NUMBERS.get(name, name))
    # Shared memory without a file lives on as a whole while one page of it is mapped.
    shared = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS
    for kind in (shared, GROWS):  # a stack counts nowhere as data
        rules.add_rule(refuse, "mmap", pyseccomp.Arg(3, pyseccomp.MASKED_EQ, kind, kind))
    # Only threads may be cloned, with the open files of their process. A filter cannot read what
    # clone3 is given; programs that are told it does not exist use clone.
    for flag in (THREAD, FILES):
        rules.add_rule(refuse, "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, flag, 0))
    rules.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "clone3")
    rules.add_rule(refuse, "close_range", pyseccomp.Arg(2, pyseccomp.NE, 0))
    # Nobody else would end it if the grader were killed.
    death, kill = pyseccomp.Arg(0, pyseccomp.EQ, 1), pyseccomp.Arg(1, pyseccomp.NE, signal.SIGKILL)
    rules.add_rule(refuse, "prctl", death, kill)
    # The newer ones; PR_FUTEX_HASH takes gigabytes at once.
    rules.add_rule(refuse, "prctl", pyseccomp.Arg(0, pyseccomp.GE, NEWER))
    for command in LOCKS:  # 200 bytes for each, without end
        rules.add_rule(refuse, "fcntl", pyseccomp.Arg(1, pyseccomp.MASKED_EQ, INT, command))
    with tempfile.TemporaryFile() as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()
