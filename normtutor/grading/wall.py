"""The wall around a submission, held by the Linux kernel: Landlock for files, seccomp for the rest.

:func:`raise_wall` can be called once and never undone. From then on the process, and each thread it
starts, reads the trees it was given, reads and writes one folder of its own, and otherwise uses
only the system calls listed here. What the list does not name fails: sockets, new processes,
signals to others, a look into another process, a change of owner or mode. This file is run by its
path as well, and imports nothing of normtutor.
"""

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple

# Each call with its number on x86-64 and on 64-bit ARM, where it has one.
CALLS = """
read:0:63 write:1:64 close:3:57 fstat:5:80 lseek:8:62 mmap:9:222 mprotect:10:226 munmap:11:215
brk:12:214 futex:202:98 rt_sigaction:13:134 rt_sigprocmask:14:135 rt_sigreturn:15:139
pread64:17:67 pwrite64:18:68 readv:19:65 writev:20:66 access:21:- pipe:22:- pipe2:293:59
select:23:- pselect6:270:72 poll:7:- ppoll:271:73 sched_yield:24:124 mremap:25:216 msync:26:227
mincore:27:232 madvise:28:233 dup:32:23 dup2:33:- dup3:292:24 pause:34:- nanosleep:35:101
getitimer:36:102 alarm:37:- setitimer:38:103 getpid:39:172 exit:60:93 exit_group:231:94
uname:63:160 flock:73:32 fsync:74:82 fdatasync:75:83 ftruncate:77:46 getdents:78:-
getdents64:217:61 getcwd:79:17 chdir:80:49 fchdir:81:50 rename:82:- renameat:264:38
renameat2:316:276 mkdir:83:- mkdirat:258:34 rmdir:84:- creat:85:- unlink:87:- unlinkat:263:35
readlink:89:- readlinkat:267:78 stat:4:- lstat:6:- newfstatat:262:79 statx:332:291 statfs:137:43
fstatfs:138:44 getrlimit:97:163 getrusage:98:165 sysinfo:99:179 times:100:153 umask:95:166
getuid:102:174 getgid:104:176 geteuid:107:175 getegid:108:177 getppid:110:173 getpgrp:111:-
getpgid:121:155 getsid:124:156 getgroups:115:158 getresuid:118:148 getresgid:120:150
gettid:186:178 sigaltstack:131:132 rt_sigpending:127:136 rt_sigtimedwait:128:137
rt_sigsuspend:130:133 arch_prctl:158:- set_tid_address:218:96 set_robust_list:273:99
get_robust_list:274:100 rseq:334:293 sched_getaffinity:204:123 sched_getparam:143:121
sched_getscheduler:145:120 sched_get_priority_max:146:125 sched_get_priority_min:147:126
getpriority:140:141 getcpu:309:168 time:201:- gettimeofday:96:169 clock_gettime:228:113
clock_getres:229:114 clock_nanosleep:230:115 getrandom:318:278 faccessat:269:48
faccessat2:439:439 epoll_create1:291:20 epoll_ctl:233:21 epoll_wait:232:- epoll_pwait:281:22
eventfd2:290:19 membarrier:324:283 restart_syscall:219:128 sendfile:40:71
copy_file_range:326:285 fadvise64:221:223 close_range:436:436 capget:125:90
"""
# These are allowed with some arguments only; see filtered().
FILTERED = """
clone:56:220 fcntl:72:25 ioctl:16:29 kill:62:129 tgkill:234:131 prctl:157:167 prlimit64:302:261
open:2:- openat:257:56
"""
ARCHITECTURES = {"x86_64": (0xC000003E, 1), "aarch64": (0xC00000B7, 2)}
SECCOMP = {"x86_64": 317, "aarch64": 277}
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # Landlock's, on every architecture
NO_NEW_PRIVILEGES, PARENT_DEATH_SIGNAL = 38, 1

# Landlock's rights over files, and the version of its interface that brought each.
READ = 1 << 2 | 1 << 3
FILES_ONLY = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15
MAKE = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 13  # write, remove, make, move
TRUNCATE = 1 << 14
ALL_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}

ALLOW, REFUSE, MISSING, KILL = 0x7FFF0000, 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS, 1 << 31


class Wall(NamedTuple):
    """What holds: nothing is missing where ``missing`` is empty."""

    files: bool
    calls: bool
    missing: str = ""


def numbers(table: str, machine: str) -> dict[str, int]:
    """The calls of a table that an architecture has, by name."""
    column = ARCHITECTURES[machine][1]
    rows = [entry.split(":") for entry in table.split()]
    return {row[0]: int(row[column]) for row in rows if row[column] != "-"}


def system_call(number: int, *arguments: object) -> int:
    """Call the kernel; raise OSError with its reason where it refuses."""
    given = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    library = ctypes.CDLL(None, use_errno=True)
    result = library.syscall(ctypes.c_long(number), *given)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def landlock_version() -> int:
    """The version of Landlock's interface that this kernel offers; 0 where there is none."""
    if sys.platform != "linux":
        return 0
    try:
        return system_call(CREATE_RULESET, None, 0, 1)
    except OSError:
        return 0


# --- files ----------------------------------------------------------------------------------------


def around(tree: str, withheld: Iterable[str]) -> Iterator[tuple[str, int]]:
    """A tree without some paths in it, as paths and what may be done below each."""
    inside = [path for path in withheld if path == tree or path.startswith(tree.rstrip("/") + "/")]
    if tree in inside:
        return
    if not inside:
        yield tree, READ
        return
    yield tree, 1 << 3  # listing: an import looks through a folder before it opens a file
    for name in sorted(os.listdir(tree)):
        yield from around(os.path.join(tree, name), inside)


def restrict_files(readable: Iterable[tuple[str, int]], own: str, devices: Iterable[str]) -> None:
    """Let this process read some trees, read and write one folder, and touch no other file."""
    version = landlock_version()
    if not version:
        raise OSError(errno.ENOSYS, "this kernel has no Landlock")
    handled = ALL_RIGHTS[max(v for v in ALL_RIGHTS if v <= version)]
    # Connections by TCP since version 4; signals and abstract sockets to the outside since 6.
    attributes = struct.pack("QQQ", handled, 3, 3)[
        : 24 if version >= 6 else 16 if version >= 4 else 8
    ]
    rules = system_call(CREATE_RULESET, attributes, len(attributes), 0)
    write = (READ | MAKE | TRUNCATE) & handled
    wanted = [*readable, (own, write), *((device, write) for device in devices)]
    try:
        for path, rights in wanted:
            try:
                beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except OSError:
                continue  # a folder that this system does not have
            try:
                if not os.path.isdir(path):
                    rights &= FILES_ONLY
                if rights:
                    system_call(ADD_RULE, rules, 1, struct.pack("=Qi", rights, beneath), 0)
            finally:
                os.close(beneath)
        system_call(RESTRICT_SELF, rules, 0)
    finally:
        os.close(rules)


# --- system calls ---------------------------------------------------------------------------------


def instruction(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    """One step of a filter: an operation, its number, and how far to go on yes and on no."""
    return struct.pack("HBBI", code, yes, no, value)


def load(offset: int) -> bytes:
    """Look at a word of the call."""
    return instruction(0x20, offset)


def argument(index: int) -> int:
    """Where the low word of a call's argument stands."""
    return 16 + 8 * index


def give(verdict: int) -> bytes:
    """End the filter."""
    return instruction(0x06, verdict)


def one_of(index: int, values: Iterable[int]) -> bytes:
    """Allow a call where an argument has one of some values."""
    steps = b"".join(instruction(0x15, value, 0, 1) + give(ALLOW) for value in values)
    return load(argument(index)) + steps + give(REFUSE)


def filtered(name: str) -> bytes:
    """What decides over a call that is allowed with some arguments only."""
    if name == "clone":  # threads, and neither processes nor namespaces
        thread = instruction(0x45, 0x7E020000, 2, 0) + instruction(0x45, 0x10000, 0, 1)
        return load(argument(0)) + thread + give(ALLOW) + give(REFUSE)
    if name in ("kill", "tgkill"):
        return one_of(0, [os.getpid()])
    if name == "fcntl":  # copies, flags and locks; not whom a file signals
        return one_of(1, [0, 1, 2, 3, 4, 5, 6, 7, 1030])
    if name == "ioctl":  # is this a terminal, how much is there to read, flags
        return one_of(1, [0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451])
    if name == "prctl":  # names of threads and of memory, and what this process may do
        return one_of(0, [15, 16, 3, 21, 23, 0x53564D41])
    if name == "prlimit64":  # its own limits, and to read them only
        steps = b""
        for offset in (argument(0), argument(2), argument(2) + 4):
            steps += load(offset) + instruction(0x15, 0, 1, 0) + give(REFUSE)
        return steps + give(ALLOW)
    if name in ("open", "openat"):
        # Older Landlock does not see that a file which is opened for reading can be emptied.
        empties = instruction(0x45, 0x3, 1, 0) + instruction(0x45, 0x200, 1, 0)
        return load(argument(1 + (name == "openat"))) + empties + give(ALLOW) + give(REFUSE)
    raise ValueError(name)


def restrict_calls(machine: str = "") -> None:
    """Let this process make the system calls that are listed, and no others."""
    machine = machine or platform.machine()
    if machine not in ARCHITECTURES:
        raise OSError(errno.ENOSYS, f"system calls are not known for {machine}")
    steps = load(4) + instruction(0x15, ARCHITECTURES[machine][0], 1, 0) + give(KILL) + load(0)
    if machine == "x86_64":  # a second numbering of the same calls
        steps += instruction(0x35, 0x40000000, 0, 1) + give(REFUSE)
    for number in numbers(CALLS, machine).values():
        steps += instruction(0x15, number, 0, 1) + give(ALLOW)
    for name, number in numbers(FILTERED, machine).items():
        body = filtered(name)
        steps += instruction(0x15, number, 0, len(body) // 8) + body
    # The C library goes another way where a newer call is missing.
    steps += instruction(0x35, 424, 0, 1) + give(MISSING) + give(REFUSE)
    program = ctypes.create_string_buffer(steps, len(steps))
    pointer = struct.pack("HxxxxxxP", len(steps) // 8, ctypes.addressof(program))
    system_call(SECCOMP[machine], 1, 1, pointer)


def die_with_parent() -> None:
    """End this process when the one that started it ends, however that ends."""
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, 9, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(0)


def raise_wall(readable: Iterable[tuple[str, int]], own: str, devices: Iterable[str] = ()) -> Wall:
    """Raise the wall around this process as far as the kernel has one, and say how far that is."""
    if sys.platform != "linux":
        return Wall(False, False, f"{platform.system()} has no Landlock and no seccomp")
    files = calls = False
    missing = []
    ctypes.CDLL(None).prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    try:
        restrict_files(readable, own, devices)
        files = True
    except OSError as error:
        missing.append(f"Landlock ({error.strerror})")
    try:
        restrict_calls()
        calls = True
    except OSError as error:
        missing.append(f"seccomp ({error.strerror})")
    return Wall(files, calls, " and ".join(missing))
