"""What a clever student may try against the wall, and against those who wait behind it.

One attack a block: its name and a cell. Those in OUTSIDE end only if they reached what they were
after; words in braces are filled in by the test. Those in BEARABLE leave their process alive, so
that one submission makes them all; each of those in DEADLY is a submission of its own.
"""

import re

OUTSIDE = r"""
the answer key: assert open('{root}/tests/grading/coursework_solutions.py', 'rb').read(20)
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
the checks by the C library: import ctypes; c = ctypes.CDLL(None)
    d = c.open(b'{package}/grading/judging.py', 0); assert d >= 0
the package by an import: import sys
    for n in [n for n in sys.modules if 'normtutor' in n]: del sys.modules[n]
    sys.path.insert(0, '{root}'); import normtutor.norms
a notebook beside the own one: assert open('{scene}/02_other.ipynb', 'rb').read(20)
another student's submission: assert open('{scene}/submitted/ann/02/02.ipynb', 'rb').read(20)
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
the list of processes: import os; os.listdir('/proc')
a debugger on the grader: import ctypes; assert ctypes.CDLL(None).ptrace(16, {judge}, 0, 0) == 0
the limits of the grader:
    import resource; resource.prlimit({judge}, resource.RLIMIT_CPU, (9999, 9999))
its own limits: import resource; r = resource.RLIMIT_AS
    resource.setrlimit(r, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
a signal to the grader: import os; os.kill({judge}, 0)
a signal to its group: import os, signal; signal.signal(23, lambda *a: None); os.killpg(0, 23)
a signal when a pipe moves:
    import fcntl, os; r, w = os.pipe(); fcntl.fcntl(r, fcntl.F_SETOWN, {judge})
a fork: import os
    if os.fork() == 0: os._exit(0)
a program: import subprocess, sys; subprocess.run([sys.executable, '-c', ''], check=True)
a program in place of itself: import os
    try: os.execv('/bin/true', ['true'])
    finally: print('still here')
a program by fork_exec: import _posixsubprocess as p, os; a, b = os.pipe()
    own = [b'/bin/true'], [b'/bin/true'], True, (), None, None
    p.fork_exec(*own, *[-1] * 6, a, b, True, False, -1, None, None, None, -1, None, True)
its parent's death: import ctypes; assert ctypes.CDLL(None).prctl(1, 0, 0, 0, 0) == 0
a socket: import socket; socket.socket()
a connection by torch: import torch.distributed as d, datetime
    d.TCPStore('127.0.0.1', {listening}, 2, False, timeout=datetime.timedelta(seconds=1))
a file beside the notebook: open('{scene}/new', 'w')
an empty grades.csv: import os; os.truncate('{scene}/grades.csv', 0)
a removed report: import os; os.remove('{scene}/02_other.txt')
a renamed report: import os; os.rename('{scene}/02_other.txt', 'mine')
a report of another mode: import os; os.chmod('{scene}/02_other.txt', 0)
shared memory: from multiprocessing import shared_memory as s; s.SharedMemory('x', True, 9)
a socket by its second number:
    import ctypes; assert ctypes.CDLL(None).syscall(0x40000000 + 41, 2, 1, 0) >= 0
what its parent left open: import os, stat
    def kinds():
        for d in range(300):
            try: yield os.fstat(d).st_mode
            except OSError: pass
    assert any(stat.S_ISSOCK(m) or stat.S_ISREG(m) for m in kinds())
the memory of its parent: import os; open('/proc/%d/mem' % os.getppid(), 'rb')
a signal to its parent: import os; os.kill(os.getppid(), 0)
a thread in a network of its own:
    import ctypes; assert ctypes.CDLL(None).syscall(56, 0x40050F00, 0, 0, 0, 0) > 0
the checks in memory:
    import gc; assert [o for o in gc.get_objects() if type(o).__name__ in ('Task', 'Check')]
a folder beside its own: import os; os.mkdir('../beside')
its own folder elsewhere: import os; os.rename(os.getcwd(), os.getcwd() + '-moved')
a library's code: import numpy; open(numpy.__file__, 'a')
memory by a shared file: open('/dev/shm/shared', 'w')
the kernel's settings: open('/proc/sys/kernel/core_pattern', 'r+')
a namespace by its file: open('/proc/self/ns/net')
a terminal's input: import fcntl
    try: fcntl.ioctl(1, 0x5412, b'x')
    except OSError as error: assert error.errno != 1
a lease on a library: import fcntl, numpy; fcntl.fcntl(open(numpy.__file__), 1024, 0)
news of a folder: import fcntl, os; fcntl.fcntl(os.open('.', 0), 1026, 2)
a pipe of the largest size: import fcntl, os; fcntl.fcntl(os.pipe()[0], 1031, 1 << 20)
the checks by machine code: import ctypes, mmap; m = mmap.mmap(-1, 4096, prot=7)
    base = ctypes.addressof(ctypes.c_char.from_buffer(m)); p = (base + 64).to_bytes(8, 'little')
    m.write(b'\x48\xbf' + p + b'\x31\xf6\xb8\x02\x00\x00\x00\x0f\x05\xc3'); m.seek(64)
    m.write(b'{package}/grading/judging.py' + bytes(1))
    assert ctypes.CFUNCTYPE(ctypes.c_long)(base)() >= 0
the checks by a newer call: import ctypes
    assert ctypes.CDLL(None).syscall(437, -100, b'{package}/grading/judging.py', bytes(24), 24) >= 0
another submission's folder: import glob, os
    own = os.getcwd(); assert set(glob.glob(os.path.dirname(own) + '/submission-*')) - set([own])
the grader's descriptors: import os; os.listdir('/proc/{judge}/fd')
a file that cannot be removed: import fcntl, os; d = os.open('a', os.O_RDWR | os.O_CREAT)
    fcntl.ioctl(d, 0x40086602, b'\x10' + bytes(7))
a signal to everybody: import os; os.kill(-1, 0)
a child with flags of its own:
    import ctypes; assert ctypes.CDLL(None).syscall(56, 17, 0, 0, 0, 0) > 0
a core of its memory: import resource; resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
disk without writing: import os; os.posix_fallocate(os.open('a', os.O_RDWR | os.O_CREAT), 0, 10**6)
more files than are good: import os; [os.dup(0) for _ in range(300)]
"""

BEARABLE = r"""
no answer: pass
an error: 1 / 0
no Python: def layer_norm_dx(g:
an exit: import sys; sys.exit(0)
a loop: while True: pass
megabytes of print: print('x' * 20_000_000)
endless printing:
    while True: print('x' * 10**6)
an answer that is no function: layer_norm_dx = 4.0
a false name: def layernorm_dx(*a): return a
another check: import normtutor.grading as g; g.check = g.score = lambda *a: 100
results of its own: open('results.json', 'w').write('{"score": 100}')
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
a number that never ends: 7 ** 7 ** 99
brackets: eval('(' * 10**6)
memory: kept = [bytearray(10**8) for _ in iter(int, 1)]
full pipes: import os; [os.write(os.pipe()[1], bytes(65536)) for _ in range(100)]
alarms without end: import signal; signal.signal(signal.SIGALRM, lambda *a: None)
    signal.setitimer(signal.ITIMER_REAL, 1e-5, 1e-5)
a number of many digits: prediction_02_1 = 10**4000
what equals everything:
    class All(float): __eq__ = __le__ = __ge__ = lambda *a: True
    prediction_02_1 = All('nan')
a shape that is none: import sys
    def layer_norm_dx(*a):
        f = sys._getframe(1)
        while 'request' not in f.f_locals: f = f.f_back
        q, w = f.f_locals['request']['question'], f.f_locals['writer']
        w.write(b'{"value": {"array": "AAAA", "dtype": "bool", "shape": [-1, "3", 1e308], "of": 1},'
                b'"changed": {"a": 1}, "missing": ["x"], "question": "%s"}\n' % q.encode())
        w.flush()
an empty shape: import numpy as np
    def layer_norm_dx(*a): return np.zeros((0, 2**62))
a stub: def layer_norm_dx(*a): pass
an error in the function: def layer_norm_dx(*a): raise ValueError('x' * 100_000)
an error that cannot be shown:
    class E(Exception): __str__ = property(lambda self: 1 / 0)
    def layer_norm_dx(*a): raise E
an exit in the function: def layer_norm_dx(*a): import sys; sys.exit(0)
a loop in the function: def layer_norm_dx(*a):
        while True: pass
a function without end: def layer_norm_dx(*a): return layer_norm_dx(*a)
memory in the function: def layer_norm_dx(*a): return np.ones(10**10)
too large a result: def layer_norm_dx(*a): return np.zeros((3000, 3000))
a nest: def layer_norm_dx(*a):
        x = []
        for _ in range(100_000): x = [x]
        return x
itself: def layer_norm_dx(*a): x = []; x.append(x); return x
objects: def layer_norm_dx(*a): return np.array([object()] * 3)
text: def layer_norm_dx(*a): return 'passed'
the package: def layer_norm_dx(*a): from normtutor import norms; return norms
a name that is no text: import ctypes; ctypes.CDLL(None).prctl(15, b'\xff) ')
an error that takes forever to show:
    class Loops(Exception):
        def __str__(self):
            while True: pass
    raise Loops
a thread that prints: import threading
    threading.Thread(target=lambda: [print('x') for _ in iter(int, 1)], daemon=True).start()
"""

# What ends its process, or is ended: it may hold up, fill up or mislead the judging process.
DEADLY = r"""
the grader's own functions: import sys; answers = sys._getframe(1).f_locals['answers']
    answers.call = lambda *a: {'value': True, 'passed': True, 'score': 4}
    answers.encode = lambda value: value
nested replies: import os, sys; w = sys._getframe(2).f_locals['writer'].fileno()
    while True: os.write(w, b'[' * 10**6 + b'\n')
prints in place of answers: import os, sys; os.dup2(1, sys._getframe(2).f_locals['writer'].fileno())
an end: import os; os._exit(0)
an end in the function: import os
    def layer_norm_dx(*a): os._exit(0)
an end in a destructor: import builtins, os
    class E: __del__ = lambda e: os._exit(0)
    builtins.kept = E()
    def layer_norm_dx(*a): del builtins.kept
alarms that are switched off: import signal; [signal.signal(s, signal.SIG_IGN) for s in (14, 27)]
    while True: pass
a pattern that never ends: import re; re.match('(a+)+$', 'a' * 99 + 'b')
closed descriptors: import os; os.closerange(0, 256)
an abort: import os; os.abort()
a call of 32 bits: import ctypes, mmap; m = mmap.mmap(-1, 4096, prot=7)
    m.write(b'\xb8\x14\x00\x00\x00\xcd\x80\xc3')
    ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()
threads that print: import threading
    def talk():
        while True: print('x' * 10_000)
    for _ in range(50): threading.Thread(target=talk, daemon=True).start()
    talk()
endless folders: import os
    for i in iter(int, 1): os.makedirs('/'.join('ab') + str(os.urandom(8)))
endless files:
    for i in range(10**9): open(str(i), 'wb').write(bytes(10**6))
waiting for the disk: import os; d = os.open('f', os.O_RDWR | os.O_CREAT)
    while True: os.pwrite(d, b'x', 0); os.fsync(d)
"""


def cells(text):
    """Each attack of a text, by its name."""
    blocks = (block.partition(":") for block in re.findall(r"^\S.*(?:\n .*)*", text, re.MULTILINE))
    return {name: code.replace("\n    ", "\n").strip() for name, _, code in blocks}


OUTSIDE, BEARABLE, DEADLY = cells(OUTSIDE), cells(BEARABLE), cells(DEADLY)
