"""What a clever student may try against the wall, and against those who wait behind it.

One attack a block: its name and a cell. Those in OUTSIDE end only if they reached what they were
after; words in braces are filled in by the test. Those in HOSTILE harm whom they can.
"""

import re

OUTSIDE = r"""
the answer key: assert open('{root}/tests/grading/coursework_solutions.py', 'rb').read(20)
the wrong answers: assert open('{root}/tests/grading/coursework_mistakes.py', 'rb').read(20)
the repository's history: assert open('{root}/README.md', 'rb').read(20)
the checks: assert open('{package}/grading/tasks/chapter_02.py', 'rb').read(20)
the references: assert open('{package}/norms/layer_norm.py', 'rb').read(20)
the checks through /proc/self/root:
    assert open('/proc/self/root{package}/grading/tasks/chapter_02.py', 'rb').read(20)
the checks from the working directory:
    import os; os.chdir('{package}/grading'); open('judging.py').read()
the checks by a descriptor of their folder: import os; d = os.open('{package}/grading', os.O_RDONLY)
    os.open('judging.py', os.O_RDONLY, dir_fd=d)
the checks by a link:
    import os; os.symlink('{package}/grading/judging.py', 'link'); open('link').read()
the checks by a hard link:
    import os; os.link('{package}/grading/judging.py', 'copy'); open('copy').read()
the checks by NumPy: import numpy as np; np.fromfile('{package}/grading/judging.py', np.uint8)
the checks by readline: import readline; readline.read_history_file('{package}/grading/judging.py')
the checks by torch:
    import torch; torch.from_file('{package}/grading/judging.py', size=9, dtype=torch.uint8)
the checks by torch's storage:
    import torch; torch.UntypedStorage.from_file('{package}/grading/judging.py', False, 9)
the checks by the C library: import ctypes; c = ctypes.CDLL(None)
    d = c.open(b'{package}/grading/judging.py', 0); assert d >= 0
the checks by memory maps: import mmap, os; d = os.open('{package}/grading/judging.py', 0)
    mmap.mmap(d, 0, prot=mmap.PROT_READ)
the package by an import: import sys
    for n in [n for n in sys.modules if 'normtutor' in n]: del sys.modules[n]
    sys.path.insert(0, '{root}'); import normtutor.norms
the package by a loader: import importlib.util as u
    spec = u.spec_from_file_location('m', '{package}/norms/layer_norm.py')
    m = u.module_from_spec(spec); spec.loader.exec_module(m)
a notebook beside the own one: assert open('{scene}/02_other.ipynb', 'rb').read(20)
another student's submission: assert open('{scene}/submitted/ann/02/02.ipynb', 'rb').read(20)
another student's graded notebook: assert open('{scene}/autograded/ann/02/02.ipynb', 'rb').read(20)
the instructor's source: assert open('{scene}/source/02/02.ipynb', 'rb').read(20)
another student's report: assert open('{scene}/02_other.txt', 'rb').read(20)
the gradebook: assert open('{scene}/gradebook.db', 'rb').read(20)
another submission by the grader's directory:
    import glob; print(len(glob.glob('/proc/{judge}/cwd/**/*.ipynb')))
    open('/proc/{judge}/cwd/submitted/ann/02/02.ipynb').read()
the home folder: import os; os.listdir('{home}')
the temporary folder: import os; os.listdir('/tmp')
passwords: assert open('/etc/passwd', 'rb').read(20)
the environment of the grader: assert open('/proc/{judge}/environ', 'rb').read(20)
the memory of the grader by /proc:
    f = open('/proc/{judge}/mem', 'rb'); f.seek({address}); assert f.read(6) == b'secret'
the memory of the grader by a system call:
    import ctypes, struct; c = ctypes.CDLL(None, use_errno=True)
    b = ctypes.create_string_buffer(6); here = struct.pack('QQ', ctypes.addressof(b), 6)
    there = struct.pack('QQ', {address}, 6)
    c.process_vm_readv({judge}, here, 1, there, 1, 0); assert b.raw == b'secret'
the memory of the grader without ctypes: import _ctypes, struct; c = _ctypes.dlopen(None, 2)
    _ctypes.call_function(_ctypes.dlsym(c, 'getpid'), ())
    b = bytearray(6); import numpy as np; a = np.frombuffer(b, np.uint8).ctypes.data
    here = struct.pack('QQ', a, 6); there = struct.pack('QQ', {address}, 6)
    _ctypes.call_function(_ctypes.dlsym(c, 'process_vm_readv'), ({judge}, here, 1, there, 1, 0))
    assert bytes(b) == b'secret'
the list of processes: import os; os.listdir('/proc')
the command line of the grader: assert open('/proc/{judge}/cmdline', 'rb').read(20)
a debugger on the grader: import ctypes; assert ctypes.CDLL(None).ptrace(16, {judge}, 0, 0) == 0
the priority of the grader: import os; os.setpriority(os.PRIO_PROCESS, {judge}, 15)
the limits of the grader:
    import resource; resource.prlimit({judge}, resource.RLIMIT_CPU, (9999, 9999))
its own limits: import resource; r = resource.RLIMIT_AS
    resource.setrlimit(r, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
the processors of the grader: import os; os.sched_setaffinity({judge}, [0])
a signal to the grader: import os; os.kill({judge}, 0)
a signal to its group: import os, signal; signal.signal(23, lambda *a: None); os.killpg(0, 23)
a signal by a file descriptor:
    import signal; signal.pidfd_send_signal(__import__('os').pidfd_open({judge}), 0)
a signal when a pipe moves:
    import fcntl, os; r, w = os.pipe(); fcntl.fcntl(r, fcntl.F_SETOWN, {judge})
a fork: import os
    if os.fork() == 0: os._exit(0)
a fork by the C library: import ctypes, os; p = ctypes.CDLL(None).fork()
    if p == 0: os._exit(0)
    assert p > 0
a program: import subprocess, sys; subprocess.run([sys.executable, '-c', ''], check=True)
a program in place of itself: import os
    try: os.execv('/bin/true', ['true'])
    finally: print('still here')
a shell: import os; assert os.system('true') == 0
a program by fork_exec: import _posixsubprocess as p, os; a, b = os.pipe()
    own = [b'/bin/true'], [b'/bin/true'], True, (), None, None
    p.fork_exec(*own, *[-1] * 6, a, b, True, False, -1, None, None, None, -1, None, True)
a pool of processes:
    import multiprocessing as m; m.get_context('spawn').Process(target=print).start()
its parent's death: import ctypes; assert ctypes.CDLL(None).prctl(1, 0, 0, 0, 0) == 0
another root: import os; os.chroot('.')
namespaces: import ctypes; assert ctypes.CDLL(None).unshare(0x10000000) == 0
a socket: import socket; socket.socket()
a pair of sockets: import socket; socket.socketpair()
a socket of torch: import torch.distributed as d
    d.TCPStore('127.0.0.1', {port}, 1, True, wait_for_workers=False)
a connection by torch: import torch.distributed as d, datetime
    d.TCPStore('127.0.0.1', {listening}, 2, False, timeout=datetime.timedelta(seconds=1))
a socket by the C library: import ctypes; assert ctypes.CDLL(None).socket(2, 1, 0) >= 0
rings of the kernel: import ctypes; b = ctypes.create_string_buffer(248)
    assert ctypes.CDLL(None).syscall(425, 1, b) >= 0
a file beside the notebook: open('{scene}/new', 'w')
an empty grades.csv: import os; os.truncate('{scene}/grades.csv', 0)
an emptied grades.csv: import os; os.open('{scene}/grades.csv', os.O_RDONLY | os.O_TRUNC)
a removed report: import os; os.remove('{scene}/02_other.txt')
a renamed report: import os; os.rename('{scene}/02_other.txt', 'mine')
a report of another mode: import os; os.chmod('{scene}/02_other.txt', 0)
a report of another date: import os; os.utime('{scene}/02_other.txt', (0, 0))
a report of another owner: import os; os.chown('{scene}/02_other.txt', 1, 1)
a report with an attribute: import os; os.setxattr('{scene}/02_other.txt', 'user.a', b'b')
a file by torch's store:
    import torch.distributed as d; d.FileStore('{scene}/store', 1).set('a', 'b')
a file by torch.save: import torch; torch.save([1], '{scene}/saved')
a file by torch's writer: import torch; torch._C.PyTorchFileWriter('{scene}/saved')
a file by a script: import torch; torch.jit.script(torch.nn.Linear(1, 1)).save('{scene}/saved')
a pipe with a name: import os; os.mkfifo('{scene}/pipe')
a device: import os; os.mknod('dev', 0o600 | 0o60000, 0x0800)
shared memory: from multiprocessing import shared_memory as s; s.SharedMemory('x', True, 9)
other rights: import os; os.setuid(1000)
memory that no limit counts: import os; os.memfd_create('a')
the kernel's keys:
    import ctypes; c = ctypes.CDLL(None); assert c.syscall(248, b'user', b'a', b'b', 1, -3) >= 0
a file by its handle: import ctypes, struct; c = ctypes.CDLL(None)
    b = ctypes.create_string_buffer(struct.pack('Ii', 120, 0), 128); m = ctypes.c_int()
    assert c.syscall(303, -100, b'{scene}/02_other.ipynb', b, ctypes.byref(m), 0) == 0
a socket by its second number:
    import ctypes; assert ctypes.CDLL(None).syscall(0x40000000 + 41, 2, 1, 0) >= 0
a database: import sqlite3; d = sqlite3.connect('{scene}/new.db'); d.execute('create table t (a)')
the checks as a library: import ctypes
    try: ctypes.CDLL('{package}/grading/judging.py')
    except OSError as error: assert 'ELF' in str(error)
the checks as a copied folder: import shutil; shutil.copytree('{package}/grading/tasks', 'mine')
what its parent left open: import os, stat
    def kinds():
        for d in range(300):
            try: yield os.fstat(d).st_mode
            except OSError: pass
    assert any(stat.S_ISSOCK(m) or stat.S_ISREG(m) for m in kinds())
the memory of its parent: import os; open('/proc/%d/mem' % os.getppid(), 'rb')
a signal to its parent: import os; os.kill(os.getppid(), 0)
memory shared by a number: import ctypes; assert ctypes.CDLL(None).shmget(0, 4096, 0o1600) >= 0
a mount: import ctypes; assert ctypes.CDLL(None).mount(b'a', b'.', b'tmpfs', 0, None) == 0
counters of the processor: import ctypes; b = ctypes.create_string_buffer(128)
    assert ctypes.CDLL(None).syscall(298, b, {judge}, -1, -1, 0) >= 0
a watch on a folder: import ctypes; c = ctypes.CDLL(None)
    assert c.inotify_add_watch(c.inotify_init(), b'{scene}', 0xfff) >= 0
the clock: import time; time.clock_settime(0, time.time())
a thread in a network of its own:
    import ctypes; assert ctypes.CDLL(None).syscall(56, 0x40050F00, 0, 0, 0, 0) > 0
the checks in memory:
    import gc; assert [o for o in gc.get_objects() if type(o).__name__ in ('Task', 'Check')]
the checks by the grader's own loader: import sys
    sys._getframe(1).f_globals['__loader__'].get_data('{package}/grading/judging.py')
the checks by their address:
    import urllib.request; urllib.request.urlopen('file://{package}/grading/judging.py')
the checks by a module's search: import importlib.resources as r, sys; sys.modules.pop('normtutor')
    sys.path.insert(0, '{root}'); (r.files('normtutor') / 'norms' / 'layer_norm.py').read_bytes()
a folder beside its own: import os; os.mkdir('../beside')
its own folder elsewhere: import os; os.rename(os.getcwd(), os.getcwd() + '-moved')
its own folder removed: import os; os.rmdir(os.getcwd())
a library's code: import numpy; open(numpy.__file__, 'a')
a library's compiled code: import os, py_compile; py_compile.compile(os.__file__, doraise=True)
memory by a shared file: open('/dev/shm/shared', 'w')
the kernel's messages: open('/dev/kmsg')
the kernel's settings: open('/proc/sys/kernel/core_pattern', 'r+')
a processor's switch: open('/sys/devices/system/cpu/cpu1/online', 'r+')
a namespace by its file: open('/proc/self/ns/net')
a terminal's input: import fcntl
    try: fcntl.ioctl(1, 0x5412, b'x')
    except OSError as error: assert error.errno != 1
a lease on a library: import fcntl, numpy; fcntl.fcntl(open(numpy.__file__), 1024, 0)
news of a folder: import fcntl, os; fcntl.fcntl(os.open('.', 0), 1026, 2)
a pipe of the largest size: import fcntl, os; fcntl.fcntl(os.pipe()[0], 1031, 1 << 20)
a priority of its own: import os; os.setpriority(os.PRIO_PROCESS, 0, 1)
a session of its own: import os; os.setpgid(0, 0)
the checks by machine code: import ctypes, mmap; m = mmap.mmap(-1, 4096, prot=7)
    base = ctypes.addressof(ctypes.c_char.from_buffer(m)); p = (base + 64).to_bytes(8, 'little')
    m.write(b'\x48\xbf' + p + b'\x31\xf6\xb8\x02\x00\x00\x00\x0f\x05\xc3'); m.seek(64)
    m.write(b'{package}/grading/judging.py' + bytes(1))
    assert ctypes.CFUNCTYPE(ctypes.c_long)(base)() >= 0
the checks by a newer call: import ctypes
    assert ctypes.CDLL(None).syscall(437, -100, b'{package}/grading/judging.py', bytes(24), 24) >= 0
the checks by a pickle: import pickle
    pickle.loads(b'cbuiltins\nopen\n(S"{package}/grading/judging.py"\ntR.')
the checks by torch.load: import torch; torch.load('{package}/grading/judging.py')
the checks in a cache of lines:
    import linecache; assert linecache.getlines('{package}/grading/judging.py')
another student's notebook in an archive: import os, tarfile
    tarfile.open('a.tar', 'w', dereference=True).add('{scene}/02_other.ipynb')
a file out of an archive: import io, tarfile; b = io.BytesIO()
    t = tarfile.open(fileobj=b, mode='w')
    i = tarfile.TarInfo('../../../../..{scene}/new'); i.size = 1; t.addfile(i, io.BytesIO(b'x'))
    t.close(); b.seek(0); tarfile.open(fileobj=b).extractall('.', filter='fully_trusted')
another submission's folder: import glob, os
    own = os.getcwd(); assert set(glob.glob(os.path.dirname(own) + '/submission-*')) - set([own])
the grader by its threads: open('/proc/{judge}/task/{judge}/mem', 'rb')
the grader's descriptors: import os; os.listdir('/proc/{judge}/fd')
a file that cannot be removed: import fcntl, os; d = os.open('a', os.O_RDWR | os.O_CREAT)
    fcntl.ioctl(d, 0x40086602, b'\x10' + bytes(7))
a signal to everybody: import os; os.kill(-1, 0)
a signal by a timer: import ctypes, struct; t = ctypes.c_int()
    e = struct.pack('QiiiQQQ', 0, 9, 4, {judge}, 0, 0, 0)
    assert ctypes.CDLL(None).syscall(222, 0, e, ctypes.byref(t)) == 0
the processor before all others: import os; os.sched_setscheduler(0, 1, os.sched_param(1))
a child with flags of its own:
    import ctypes; assert ctypes.CDLL(None).syscall(56, 17, 0, 0, 0, 0) > 0
a core of its memory: import resource; resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
"""

# What may hold up, fill up or mislead the judging process.
HOSTILE = r"""
stray lines: import os, sys; w = sys._getframe(2).f_locals['writer'].fileno()
    while True: os.write(w, b'\n' * 5000)
nested replies: import os, sys; w = sys._getframe(2).f_locals['writer'].fileno()
    while True: os.write(w, b'[' * 10**6 + b'\n')
replies of many parts: import os, sys; w = sys._getframe(2).f_locals['writer'].fileno()
    while True: os.write(w, b'{},' * 3_000_000 + b'\n')
prints in place of answers: import os, sys; os.dup2(1, sys._getframe(2).f_locals['writer'].fileno())
a class whose name never comes:
    class M(type): __name__ = property(lambda c: sum(1 for _ in iter(int, 1)))
    class E(Exception, metaclass=M): pass
    raise E
an error of no class:
    class E(Exception): __class__ = property(lambda e: sum(1 for _ in iter(int, 1)))
    raise E
a source that never comes:
    L = type('L', (), {'get_source': lambda *a: sum(1 for _ in iter(int, 1))})
    exec(compile('1 / 0', 'nowhere.py', 'exec'), {'__loader__': L(), '__name__': 'a'})
a stop: import os, signal; os.kill(os.getpid(), signal.SIGSTOP)
a sleep through every alarm: import time
    while True:
        try: time.sleep(10**6)
        except BaseException: pass
alarms that are switched off: import signal; [signal.signal(s, signal.SIG_IGN) for s in (14, 27)]
    while True: pass
closed descriptors: import os; os.closerange(0, 256)
an abort: import os; os.abort()
a call of 32 bits: import ctypes, mmap; m = mmap.mmap(-1, 4096, prot=7)
    m.write(b'\xb8\x14\x00\x00\x00\xcd\x80\xc3')
    ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()
a pattern that never ends: import re; re.match('(a+)+$', 'a' * 99 + 'b')
a number that never ends: 7 ** 7 ** 99
brackets: eval('(' * 10**6)
memory: kept = [bytearray(10**8) for _ in iter(int, 1)]
threads: import threading
    def busy():
        while True: pass
    for _ in range(50): threading.Thread(target=busy, daemon=True).start()
    busy()
full pipes: import os; [os.write(os.pipe()[1], bytes(65536)) for _ in range(100)]
endless printing:
    while True: print('x' * 10**6)
endless folders: import os
    for i in iter(int, 1): os.makedirs('/'.join('ab') + str(os.urandom(8)))
endless files:
    for i in range(10**9): open(str(i), 'wb').write(bytes(10**6))
files that are mapped and removed: import mmap, os
    def filled():
        f = open('m', 'wb+'); f.truncate(40_000_000); m = mmap.mmap(f.fileno(), 40_000_000)
        f.close(); os.remove('m'); m[:] = bytes(40_000_000); return m
    kept = [filled() for _ in iter(int, 1)]
printing threads: import threading
    def talk():
        while True: print('x' * 10_000)
    for _ in range(50): threading.Thread(target=talk, daemon=True).start()
waiting for the disk: import os; d = os.open('f', os.O_RDWR | os.O_CREAT)
    while True: os.pwrite(d, b'x', 0); os.fsync(d)
a number of many digits: prediction_02_1 = 10**4000
a shape that is none: import sys
    def layer_norm_dx(*a):
        f = sys._getframe(1)
        while 'request' not in f.f_locals: f = f.f_back
        q, w = f.f_locals['request']['question'], f.f_locals['writer']
        w.write(b'{"value": {"array": "AAAA", "dtype": "bool", "shape": [-1, "3", 1e308], "of": 1},'
                b'"changed": {"a": 1}, "missing": ["x"], "question": "%s"}\n' % q.encode())
        w.flush()
alarms without end: import signal; signal.signal(signal.SIGALRM, lambda *a: None)
    signal.setitimer(signal.ITIMER_REAL, 1e-5, 1e-5)
an end in a destructor: import builtins, os
    class E: __del__ = lambda e: os._exit(0)
    builtins.kept = E()
    def layer_norm_dx(*a): del builtins.kept
an empty shape: import numpy as np
    def layer_norm_dx(*a): return np.zeros((0, 2**62))
what equals everything:
    class All(float): __eq__ = __le__ = __ge__ = lambda *a: True
    prediction_02_1 = All('nan')
"""


def cells(text):
    """Each attack of a text, by its name."""
    blocks = (block.partition(":") for block in re.findall(r"^\S.*(?:\n .*)*", text, re.MULTILINE))
    return {name: code.replace("\n    ", "\n").strip() for name, _, code in blocks}


OUTSIDE, HOSTILE = cells(OUTSIDE), cells(HOSTILE)
