"""System calls that a submission has to do without, as a filter of the kernel's (seccomp).

The memory of a submission is counted as that of its processes. Each call below would make the
kernel hold more for it elsewhere, where nobody counts, or lead past the filter. No exercise needs
one of them; a program that tries gets the error EPERM.
"""

import errno
import functools
import mmap
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
}
# The newest, which an older libseccomp does not know by name; the number is that of every machine.
NUMBERS = {"memfd_secret": 447, "setxattrat": 463}


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
    rules.add_rule(refuse, "mmap", pyseccomp.Arg(3, pyseccomp.MASKED_EQ, shared, shared))
    with tempfile.TemporaryFile() as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()
