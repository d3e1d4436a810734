"""What a clever student may try: each kind with what it reached before there was a wall, and now.

Every cell prints its own mark once it has what it was after, so a mark in the output is a breach.
``before`` is what became of it when it was first tried: most of them met the first grader, which
kept a list of forbidden Python events; those under "later" met the wall.
"""

from typing import NamedTuple


class Attack(NamedTuple):
    """A cell, and what became of it before and now; ``reached`` stands for a breach."""

    cell: str
    before: str
    now: str = "refused"


READ = "data = open({path!r}, 'rb').read(20); assert data; reached()"


def reads(path, before):
    """Read a file by its name."""
    return Attack(READ.replace("{path!r}", repr(path)), before)


#: Files, memory, processes and the network. Paths in braces are filled in by the test.
OUTSIDE = {
    # the answer key, and what else lies in a checkout of the book
    "the answer key": reads("{root}/tests/grading/coursework_solutions.py", "reached"),
    "the wrong answers": reads("{root}/tests/grading/coursework_mistakes.py", "reached"),
    "the repository's history": reads("{root}/README.md", "reached"),
    "the checks": reads("{package}/grading/tasks/chapter_02.py", "refused"),
    "the references": reads("{package}/norms/layer_norm.py", "refused"),
    "the checks through /proc/self/root": reads(
        "/proc/self/root{package}/grading/tasks/chapter_02.py", "refused"
    ),
    "the checks from the working directory": Attack(
        "import os; os.chdir('{package}/grading'); open('judging.py').read(); reached()", "refused"
    ),
    "the checks by a descriptor of their folder": Attack(
        "import os; d = os.open('{package}/grading', os.O_RDONLY)\n"
        "os.open('judging.py', os.O_RDONLY, dir_fd=d); reached()",
        "refused",
    ),
    "the checks by a link": Attack(
        "import os; os.symlink('{package}/grading/judging.py', 'link'); open('link').read()\n"
        "reached()",
        "refused",
    ),
    "the checks by a hard link": Attack(
        "import os; os.link('{package}/grading/judging.py', 'copy'); open('copy').read()\n"
        "reached()",
        "refused",
    ),
    "the checks by NumPy": Attack(
        "import numpy as np; np.fromfile('{package}/grading/judging.py', np.uint8); reached()",
        "refused",
    ),
    "the checks by readline": Attack(
        "import readline; readline.read_history_file('{package}/grading/judging.py'); reached()",
        "refused",
    ),
    "the checks by torch": Attack(
        "import torch; torch.from_file('{package}/grading/judging.py', size=9,"
        " dtype=torch.uint8); reached()",
        "refused",
    ),
    "the checks by torch's storage": Attack(
        "import torch; torch.UntypedStorage.from_file('{package}/grading/judging.py', False, 9)\n"
        "reached()",
        "refused",
    ),
    "the checks by the C library": Attack(
        "import ctypes; c = ctypes.CDLL(None)\n"
        "d = c.open(b'{package}/grading/judging.py', 0); assert d >= 0; reached()",
        "refused",
    ),
    "the checks by memory maps": Attack(
        "import mmap, os; d = os.open('{package}/grading/judging.py', 0)\n"
        "mmap.mmap(d, 0, prot=mmap.PROT_READ); reached()",
        "refused",
    ),
    "the package by an import": Attack(
        "import sys\nfor n in [n for n in sys.modules if 'normtutor' in n]: del sys.modules[n]\n"
        "sys.path.insert(0, '{root}'); import normtutor.norms; reached()",
        "refused",
    ),
    "the package by a loader": Attack(
        "import importlib.util as u\n"
        "spec = u.spec_from_file_location('m', '{package}/norms/layer_norm.py')\n"
        "m = u.module_from_spec(spec); spec.loader.exec_module(m); reached()",
        "refused",
    ),
    # other students
    "a notebook beside the own one": reads("{scene}/02_other.ipynb", "refused"),
    "another student's submission": reads("{scene}/submitted/ann/02/02.ipynb", "reached"),
    "another student's graded notebook": reads("{scene}/autograded/ann/02/02.ipynb", "reached"),
    "the instructor's source": reads("{scene}/source/02/02.ipynb", "reached"),
    "another student's report": reads("{scene}/02_other.txt", "reached"),
    "the gradebook": reads("{scene}/gradebook.db", "reached"),
    "another submission by the grader's directory": Attack(
        "import glob; print(len(glob.glob('/proc/{judge}/cwd/**/*.ipynb')))\n"
        "open('/proc/{judge}/cwd/submitted/ann/02/02.ipynb').read(); reached()",
        "reached",
    ),
    "the home folder": Attack("import os; os.listdir('{home}'); reached()", "reached"),
    "the temporary folder": Attack("import os; os.listdir('/tmp'); reached()", "reached"),
    "passwords": reads("/etc/passwd", "reached"),
    # processes
    "the environment of the grader": reads("/proc/{judge}/environ", "refused"),
    "the memory of the grader by /proc": Attack(
        "f = open('/proc/{judge}/mem', 'rb'); f.seek({address}); assert f.read(6) == b'secret'\n"
        "reached()",
        "refused",
    ),
    "the memory of the grader by a system call": Attack(
        "import ctypes, struct; c = ctypes.CDLL(None, use_errno=True)\n"
        "b = ctypes.create_string_buffer(6)\n"
        "here = struct.pack('QQ', ctypes.addressof(b), 6)\n"
        "there = struct.pack('QQ', {address}, 6)\n"
        "c.process_vm_readv({judge}, here, 1, there, 1, 0); assert b.raw == b'secret'; reached()",
        "refused",
    ),
    "the memory of the grader without ctypes": Attack(
        "import _ctypes, struct; c = _ctypes.dlopen(None, 2)\n"
        "_ctypes.call_function(_ctypes.dlsym(c, 'getpid'), ())\n"
        "b = bytearray(6); import numpy as np; a = np.frombuffer(b, np.uint8).ctypes.data\n"
        "here = struct.pack('QQ', a, 6); there = struct.pack('QQ', {address}, 6)\n"
        "_ctypes.call_function(_ctypes.dlsym(c, 'process_vm_readv'), ({judge}, here, 1, there, 1,"
        " 0)); assert bytes(b) == b'secret'; reached()",
        "refused",
    ),
    "the list of processes": Attack("import os; os.listdir('/proc'); reached()", "reached"),
    "the command line of the grader": reads("/proc/{judge}/cmdline", "refused"),
    "a debugger on the grader": Attack(
        "import ctypes; assert ctypes.CDLL(None).ptrace(16, {judge}, 0, 0) == 0; reached()",
        "refused",
    ),
    "the priority of the grader": Attack(
        "import os; os.setpriority(os.PRIO_PROCESS, {judge}, 15); reached()", "reached"
    ),
    "the limits of the grader": Attack(
        "import resource; resource.prlimit({judge}, resource.RLIMIT_CPU, (9999, 9999)); reached()",
        "refused",
    ),
    "its own limits": Attack(
        "import resource; r = resource.RLIMIT_AS\n"
        "resource.setrlimit(r, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)); reached()",
        "refused",
    ),
    "the processors of the grader": Attack(
        "import os; os.sched_setaffinity({judge}, [0]); reached()", "reached"
    ),
    "a signal to the grader": Attack("import os; os.kill({judge}, 0); reached()", "refused"),
    "a signal to its group": Attack(
        "import os, signal; signal.signal(23, lambda *a: None); os.killpg(0, 23); reached()",
        "refused",
    ),
    "a signal by a file descriptor": Attack(
        "import signal; signal.pidfd_send_signal(__import__('os').pidfd_open({judge}), 0)\n"
        "reached()",
        "refused",
    ),
    "a signal when a pipe moves": Attack(
        "import fcntl, os; r, w = os.pipe(); fcntl.fcntl(r, fcntl.F_SETOWN, {judge}); reached()",
        "reached",
    ),
    "a fork": Attack("import os\nif os.fork() == 0: os._exit(0)\nreached()", "refused"),
    "a fork by the C library": Attack(
        "import ctypes, os\np = ctypes.CDLL(None).fork()\nif p == 0: os._exit(0)\n"
        "assert p > 0; reached()",
        "refused",
    ),
    "a program": Attack(
        "import subprocess, sys; subprocess.run([sys.executable, '-c', ''], check=True)\nreached()",
        "refused",
    ),
    "a program in place of itself": Attack(
        "import os\ntry: os.execv('/bin/true', ['true'])\nfinally: print('still here')\nreached()",
        "refused",
    ),
    "a shell": Attack("import os; assert os.system('true') == 0; reached()", "refused"),
    "a program by fork_exec": Attack(
        "import _posixsubprocess as p, os\na, b = os.pipe()\n"
        "p.fork_exec([b'/bin/true'], [b'/bin/true'], True, (), None, None, -1, -1, -1, -1, -1, -1,"
        " a, b, True, False, -1, None, None, None, -1, None, True); reached()",
        "refused",
    ),
    "a pool of processes": Attack(
        "import multiprocessing as m; m.get_context('spawn').Process(target=print).start()\n"
        "reached()",
        "refused",
    ),
    "its parent's death": Attack(
        "import ctypes; assert ctypes.CDLL(None).prctl(1, 0, 0, 0, 0) == 0; reached()", "refused"
    ),
    "another root": Attack("import os; os.chroot('.'); reached()", "reached"),
    "namespaces": Attack(
        "import ctypes; assert ctypes.CDLL(None).unshare(0x10000000) == 0; reached()", "refused"
    ),
    # the network
    "a socket": Attack("import socket; socket.socket(); reached()", "refused"),
    "a pair of sockets": Attack("import socket; socket.socketpair(); reached()", "refused"),
    "a socket of torch": Attack(
        "import torch.distributed as d\n"
        "d.TCPStore('127.0.0.1', {port}, 1, True, wait_for_workers=False); reached()",
        "reached",
    ),
    "a connection by torch": Attack(
        "import torch.distributed as d, datetime\n"
        "d.TCPStore('127.0.0.1', {listening}, 2, False, timeout=datetime.timedelta(seconds=1))\n"
        "reached()",
        "refused",
    ),
    "a socket by the C library": Attack(
        "import ctypes; assert ctypes.CDLL(None).socket(2, 1, 0) >= 0; reached()", "refused"
    ),
    "rings of the kernel": Attack(
        "import ctypes; b = ctypes.create_string_buffer(248)\n"
        "assert ctypes.CDLL(None).syscall(425, 1, b) >= 0; reached()",
        "refused",
    ),
    # files of others
    "a file beside the notebook": Attack("open('{scene}/new', 'w'); reached()", "refused"),
    "an empty grades.csv": Attack(
        "import os; os.truncate('{scene}/grades.csv', 0); reached()", "refused"
    ),
    "an emptied grades.csv": Attack(
        "import os; os.open('{scene}/grades.csv', os.O_RDONLY | os.O_TRUNC); reached()", "refused"
    ),
    "a removed report": Attack(
        "import os; os.remove('{scene}/02_other.txt'); reached()", "refused"
    ),
    "a renamed report": Attack(
        "import os; os.rename('{scene}/02_other.txt', 'mine'); reached()", "refused"
    ),
    "a report of another mode": Attack(
        "import os; os.chmod('{scene}/02_other.txt', 0); reached()", "refused"
    ),
    "a report of another date": Attack(
        "import os; os.utime('{scene}/02_other.txt', (0, 0)); reached()", "refused"
    ),
    "a report of another owner": Attack(
        "import os; os.chown('{scene}/02_other.txt', 1, 1); reached()", "refused"
    ),
    "a report with an attribute": Attack(
        "import os; os.setxattr('{scene}/02_other.txt', 'user.a', b'b'); reached()", "reached"
    ),
    "a file by torch's store": Attack(
        "import torch.distributed as d; d.FileStore('{scene}/store', 1).set('a', 'b'); reached()",
        "reached",
    ),
    "a file by torch.save": Attack(
        "import torch; torch.save([1], '{scene}/saved'); reached()", "refused"
    ),
    "a file by torch's writer": Attack(
        "import torch; torch._C.PyTorchFileWriter('{scene}/saved'); reached()", "refused"
    ),
    "a file by a script": Attack(
        "import torch; torch.jit.script(torch.nn.Linear(1, 1)).save('{scene}/saved'); reached()",
        "refused",
    ),
    "a pipe with a name": Attack("import os; os.mkfifo('{scene}/pipe'); reached()", "refused"),
    "a device": Attack("import os; os.mknod('dev', 0o600 | 0o60000, 0x0800); reached()", "refused"),
    "shared memory": Attack(
        "from multiprocessing import shared_memory as s\ns.SharedMemory('x', True, 9); reached()",
        "refused",
    ),
    "other rights": Attack("import os; os.setuid(1000); reached()", "reached"),
    # later
    "memory that no limit counts": Attack("import os; os.memfd_create('a'); reached()", "refused"),
    "the kernel's keys": Attack(
        "import ctypes; c = ctypes.CDLL(None)\n"
        "assert c.syscall(248, b'user', b'a', b'b', 1, -3) >= 0; reached()",
        "refused",
    ),
    "a file by its handle": Attack(
        "import ctypes, struct; c = ctypes.CDLL(None)\n"
        "b = ctypes.create_string_buffer(struct.pack('Ii', 120, 0), 128); m = ctypes.c_int()\n"
        "assert c.syscall(303, -100, b'{scene}/02_other.ipynb', b, ctypes.byref(m), 0) == 0\n"
        "reached()",
        "refused",
    ),
    "a socket by its second number": Attack(
        "import ctypes; assert ctypes.CDLL(None).syscall(0x40000000 + 41, 2, 1, 0) >= 0; reached()",
        "refused",
    ),
    "a database": Attack(
        "import sqlite3; d = sqlite3.connect('{scene}/new.db')\n"
        "d.execute('create table t (a)'); reached()",
        "refused",
    ),
    "the checks as a library": Attack(
        "import ctypes\ntry: ctypes.CDLL('{package}/grading/judging.py')\n"
        "except OSError as error: assert 'ELF' in str(error); reached()",
        "refused",
    ),
    "the checks as a copied folder": Attack(
        "import shutil; shutil.copytree('{package}/grading/tasks', 'mine'); reached()", "refused"
    ),
    "what its parent left open": Attack(
        "import os, stat\n"
        "def kinds():\n"
        "    for d in range(300):\n"
        "        try: yield os.fstat(d).st_mode\n"
        "        except OSError: pass\n"
        "assert any(stat.S_ISSOCK(m) or stat.S_ISREG(m) for m in kinds()); reached()",
        "refused",
    ),
    "the memory of its parent": Attack(
        "import os; open('/proc/%d/mem' % os.getppid(), 'rb'); reached()", "refused"
    ),
    "a signal to its parent": Attack("import os; os.kill(os.getppid(), 0); reached()", "refused"),
    "memory shared by a number": Attack(
        "import ctypes; assert ctypes.CDLL(None).shmget(0, 4096, 0o1600) >= 0; reached()", "refused"
    ),
    "a mount": Attack(
        "import ctypes; assert ctypes.CDLL(None).mount(b'a', b'.', b'tmpfs', 0, None) == 0\n"
        "reached()",
        "refused",
    ),
    "counters of the processor": Attack(
        "import ctypes; b = ctypes.create_string_buffer(128)\n"
        "assert ctypes.CDLL(None).syscall(298, b, {judge}, -1, -1, 0) >= 0; reached()",
        "refused",
    ),
    "a watch on a folder": Attack(
        "import ctypes; c = ctypes.CDLL(None)\n"
        "assert c.inotify_add_watch(c.inotify_init(), b'{scene}', 0xfff) >= 0; reached()",
        "refused",
    ),
    "the clock": Attack("import time; time.clock_settime(0, time.time()); reached()", "refused"),
}

TORCH = """import torch, warnings, numpy as np
import torch.nn.functional as F
warnings.simplefilter("ignore")
from torch.func import vjp
vjp(torch.sin, torch.ones(1))[1](torch.ones(1))  # the first call loads much
"""


def group(expression):
    """An answer to 02.5, right in its numbers, that a library has computed."""
    return (
        "def answer(x, weight, bias, eps):\n"
        "    x, weight, bias = (torch.tensor(a) for a in (x, weight, bias))\n"
        f"    return {expression}\n"
    )


def gradient(lines):
    """An answer to 02.2 for which torch takes the derivative: y is made so that dy/dv is right."""
    body = "".join(f"    {line}\n" for line in lines.splitlines())
    return (
        "def forward(v, inverse_std):\n"
        "    # x has the mean 0 and the deviation 1/inverse_std, up to eps\n"
        "    centred = v - v.mean(-1, keepdim=True)\n"
        "    return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()\n"
        "def answer(g, x_hat, inverse_std):\n"
        "    g, v, s = (torch.tensor(a) for a in (g, x_hat / inverse_std, inverse_std))\n"
        f"{body}"
    )


#: Answers that torch computes: the task, the cells, and what the first grader said to them.
BORROWED = {
    "functional": ("02.5", group("F.group_norm(x, 1, weight, bias, eps)"), "refused"),
    "torch's own name": ("02.5", group("torch.group_norm(x, 1, weight, bias, eps)"), "refused"),
    "a module": (
        "02.5",
        group(
            "torch.nn.GroupNorm(1, x.shape[1], eps, affine=False).double()(x.double())"
            ".to(x.dtype) * weight[:, None] + bias[:, None]"
        ),
        "refused",
    ),
    "functions of variables": (
        "02.5",
        group("torch._C._VariableFunctions.group_norm(x, 1, weight, bias, eps, False)"),
        "reached",
    ),
    "the binding below": (
        "02.5",
        group("torch._VF.group_norm(x, 1, weight, bias, eps, False)"),
        "reached",
    ),
    "an operator": (
        "02.5",
        group("torch.ops.aten.group_norm.default(x, 1, weight, bias, eps)"),
        "refused",
    ),
    "a native operator": (
        "02.5",
        group(
            "torch.ops.aten.native_group_norm(x, weight, bias, len(x), x.shape[1], x.shape[2],"
            " 1, eps)[0]"
        ),
        "refused",
    ),
    "an operator that is looked up": (
        "02.5",
        group("torch._C._jit_get_operation('aten::group_norm')[0](x, 1, weight, bias, eps)"),
        "refused",
    ),
    "another norm of the library": (
        "02.5",
        group("F.layer_norm(x, x.shape[1:], None, None, eps) * weight[:, None] + bias[:, None]"),
        "refused",
    ),
    "instance norm": (
        "02.5",
        group(
            "F.instance_norm(x.reshape(len(x), 1, -1), eps=eps).reshape(x.shape)"
            " * weight[:, None] + bias[:, None]"
        ),
        "refused",
    ),
    "batch norm": (
        "02.5",
        group(
            "torch._VF.batch_norm(x.reshape(1, len(x), -1), None, None, None, None, True, 0.1,"
            " eps, False).reshape(x.shape) * weight[:, None] + bias[:, None]"
        ),
        "reached",
    ),
    "a name that is put together": (
        "02.5",
        group("getattr(torch, 'group' + '_' + 'norm')(x, 1, weight, bias, eps)"),
        "refused",
    ),
    "a traced function": (
        "02.5",
        "traced = torch.jit.trace(lambda x, w, b: F.group_norm(x, 1, w, b, 1e-3),"
        " (torch.ones(2, 3, 4), torch.ones(3), torch.ones(3)), check_trace=False)\n"
        + group("traced(x, weight, bias)"),
        "reached",
    ),
    "a thread": (
        "02.5",
        "from concurrent.futures import ThreadPoolExecutor\n"
        + group(
            "ThreadPoolExecutor(1).submit(torch._VF.group_norm, x, 1, weight, bias, eps,"
            " False).result()"
        ),
        "reached",
    ),
    "a thread that was there before": (
        "02.5",
        "from concurrent.futures import ThreadPoolExecutor\n"
        "pool = ThreadPoolExecutor(1)\npool.submit(torch.ones, 3).result()\n"
        + group("pool.submit(torch._VF.group_norm, x, 1, weight, bias, eps, False).result()"),
        "reached",
    ),
    "an object that computes late": (
        "02.5",
        "class Late:\n    dtype = torch.float64\n    def __init__(self, f): self.f = f\n"
        "    def detach(self): return self.f()\n"
        + group("Late(lambda: torch._VF.group_norm(x, 1, weight, bias, eps, False))"),
        "reached",
    ),
    "a record that is stopped": (
        "02.5",
        group(
            "(torch._C._autograd._disable_profiler(),"
            " torch._VF.group_norm(x, 1, weight, bias, eps, False))[1]"
        ),
        "reached",
    ),
    "a record that is replaced": (
        "02.5",
        "import contextlib\ntorch.autograd.profiler.profile = contextlib.nullcontext\n"
        "torch.autograd.profiler.record_function = contextlib.nullcontext\n"
        + group("torch._VF.group_norm(x, 1, weight, bias, eps, False)"),
        "reached",
    ),
    "a reference in Python": (
        "02.5",
        "import torch._refs\n"
        + group(
            "torch._refs.native_group_norm(x, weight, bias, len(x), x.shape[1], x.shape[2], 1,"
            " eps)[0]"
        ),
        "reached",
    ),
    "a part of a reference": (
        "02.5",
        "import torch._refs\n"
        + group("torch._refs._normalize(x, (1, 2), eps)[0] * weight[:, None] + bias[:, None]"),
        "reached",
    ),
    "a decomposition": (
        "02.2",
        "from torch._decomp.decompositions import native_layer_norm_backward as back\n"
        + gradient(
            "return back(g, v, v.shape[-1:], torch.zeros_like(s), s, None, None,"
            " [True, False, False])[0]"
        ),
        "reached",
    ),
    "weights that the library folds": (
        "04.3",
        "from torch.nn.utils.fusion import fuse_linear_bn_weights as fuse\n"
        "def answer(w, b, weight, bias, mean, var, eps):\n"
        "    w, b, mean, var = (torch.tensor(a) for a in (w, b, mean, var))\n"
        "    found = fuse(w, b, mean, var, eps, torch.tensor(weight), torch.tensor(bias))\n"
        "    return tuple(a.detach() for a in found)\n",
        "reached",
    ),
    "a derivative that was taken before": (
        "02.2",
        gradient("return None") + "from torch.fx.experimental.proxy_tensor import make_fx\n"
        "def pull(g, v, s): return vjp(lambda v: forward(v, s), v)[1](g)[0]\n"
        "made = {n: make_fx(pull)(*(torch.ones(m, dtype=torch.float64) for m in (n, n, 1)))"
        " for n in range(1, 10)}\n"
        "def answer(g, x_hat, inverse_std):\n"
        "    n = g.shape[-1]\n"
        "    arrays = (g, x_hat / inverse_std, inverse_std)\n"
        "    rows = (torch.tensor(a).double().reshape(-1, a.shape[-1]) for a in arrays)\n"
        "    found = [made[n](*row) for row in zip(*rows)]\n"
        "    return torch.stack(found).reshape(g.shape).numpy().astype(g.dtype)\n",
        "reached",
    ),
    "a derivative by differences": (
        "02.2",
        "from scipy.differentiate import jacobian\n"
        "def forward(v):\n"
        "    c = v - v.mean(0)\n"
        "    return c / np.sqrt((c * c).mean(0) + 1e-5)\n"
        "def answer(g, x_hat, inverse_std):\n"
        "    n = g.shape[-1]\n"
        "    rows = zip(g.reshape(-1, n), (x_hat / inverse_std).reshape(-1, n))\n"
        "    found = [g @ jacobian(forward, v).df for g, v in rows]\n"
        "    return np.reshape(found, g.shape)\n",
        "reached",
    ),
    "a record of calls that is taken away": (
        "02.5",
        "import sys, torch._refs\n"
        "def answer(x, weight, bias, eps):\n"
        "    mine = sys.getprofile()\n"
        "    sys.setprofile(None)\n"
        "    x, weight, bias = (torch.tensor(a) for a in (x, weight, bias))\n"
        "    y = torch._refs.native_group_norm(x, weight, bias, *x.shape, 1, eps)[0]\n"
        "    sys.setprofile(mine)\n"
        "    return y\n",
        "reached",
    ),
    # later
    "a compiled norm": (
        "02.5",
        "compiled = torch.compile(F.group_norm, backend='eager')\n"
        + group("compiled(x, 1, weight, bias, eps)"),
        "refused",
    ),
    "a batched norm": (
        "02.5",
        group("torch.vmap(lambda r: F.group_norm(r[None], 1, weight, bias, eps)[0])(x)"),
        "refused",
    ),
    "a thread of TorchScript": (
        "02.5",
        "script = torch.jit.CompilationUnit('''\n"
        "def f(x: Tensor, w: Tensor, b: Tensor, e: float) -> Tensor:\n"
        "    return torch.jit._wait(torch.jit._fork(torch.group_norm, x, 1, w, b, e))\n''')\n"
        + group("script.f(x, weight, bias, eps)"),
        "refused",
    ),
    "an operator of a harmless name": (
        "02.5",
        "def harmless(x, w, b, e): return F.group_norm(x, 1, w, b, e)\n"
        "mine = torch.library.Library('mine', 'FRAGMENT')\n"
        "mine.define(f'f{id(harmless)}(Tensor x, Tensor w, Tensor b, float e) -> Tensor')\n"
        "mine.impl(f'f{id(harmless)}', harmless, 'CompositeExplicitAutograd')\n"
        "harmless = getattr(torch.ops.mine, f'f{id(harmless)}')\n"
        + group("harmless(x, weight, bias, eps)"),
        "refused",
    ),
    "a record inside the record": (
        "02.5",
        "def answer(x, weight, bias, eps):\n"
        "    x, weight, bias = (torch.tensor(a) for a in (x, weight, bias))\n"
        "    with torch.autograd.profiler.profile():\n"
        "        return torch._VF.group_norm(x, 1, weight, bias, eps, False)\n",
        "refused",
    ),
    "a derivative in TorchScript": (
        "02.2",
        "script = torch.jit.CompilationUnit('''\n"
        "def f(g: Tensor, v: Tensor, e: Tensor) -> Tensor:\n"
        "    v = v.detach().requires_grad_(True)\n"
        "    c = v - v.mean(-1, True)\n"
        "    y = c / ((c * c).mean(-1, True) + e).sqrt()\n"
        "    found = torch.autograd.grad([(y * g).sum()], [v])[0]\n"
        "    assert found is not None\n"
        "    return found\n''')\n"
        "def answer(g, x_hat, inverse_std):\n"
        "    arrays = (g, x_hat / inverse_std, inverse_std)\n"
        "    g, v, s = (torch.tensor(a).double() for a in arrays)\n"
        "    return script.f(g, v, s**-2 - v.var(-1, keepdim=True, correction=0))\n",
        "refused",
    ),
    "a derivative by SymPy": (
        "02.2",
        "import sympy\n"
        "def formula(n):\n"
        "    v, g = (sympy.symbols(f'{a}0:{n}', seq=True) for a in 'vg')\n"
        "    e, m = sympy.Symbol('e'), sum(v) / n\n"
        "    s = sympy.sqrt(sum((a - m)**2 for a in v) / n + e)\n"
        "    loss = sum(a * (b - m) / s for a, b in zip(g, v))\n"
        "    return sympy.lambdify([g, v, e], sympy.diff(loss, v[0]))\n"
        "made = {n: formula(n) for n in range(1, 10)}\n"
        "def answer(g, x_hat, inverse_std):\n"
        "    n = g.shape[-1]\n"
        "    arrays = (g, x_hat / inverse_std, inverse_std)\n"
        "    rows = zip(*(a.reshape(-1, a.shape[-1]).astype(float) for a in arrays))\n"
        "    def one(i, g, v, s):\n"
        "        return made[n](np.roll(g, -i), np.roll(v, -i), s[0]**-2 - v.var())\n"
        "    found = [[one(i, *row) for i in range(n)] for row in rows]\n"
        "    return np.reshape(found, g.shape).astype(g.dtype)\n",
        "reached",
    ),
    "a derivative by mpmath": (
        "02.2",
        "import mpmath\n"
        "def answer(g, x_hat, inverse_std):\n"
        "    n = g.shape[-1]\n"
        "    arrays = (g, x_hat / inverse_std, inverse_std)\n"
        "    found = []\n"
        "    for g_, v, s in zip(*(a.reshape(-1, a.shape[-1]).astype(float) for a in arrays)):\n"
        "        e = s[0]**-2 - v.var()\n"
        "        def loss(t, i):\n"
        "            w = [mpmath.mpf(a) for a in v]; w[i] = t\n"
        "            m = sum(w) / n\n"
        "            d = mpmath.sqrt(sum((a - m)**2 for a in w) / n + e)\n"
        "            return sum(b * (a - m) / d for a, b in zip(w, g_))\n"
        "        found.append([float(mpmath.diff(lambda t: loss(t, i), v[i])) for i in range(n)])\n"
        "    return np.reshape(found, g.shape).astype(g.dtype)\n",
        "reached",
    ),
    "differences by torch's own test": (
        "02.2",
        "from torch.autograd.gradcheck import _get_numerical_jacobian as slope\n"
        "def answer(g, x_hat, inverse_std):\n"
        "    arrays = (g, x_hat / inverse_std, inverse_std)\n"
        "    found = []\n"
        "    for g_, v, s in zip(*(a.reshape(-1, a.shape[-1]).astype(float) for a in arrays)):\n"
        "        def f(t):\n"
        "            c = t - t.mean()\n"
        "            return c / ((c * c).mean() + s[0]**-2 - v.var()).sqrt()\n"
        "        t = torch.tensor(v).requires_grad_()\n"
        "        A, B, C = (slope(f, (t,), eps=0.01 / s[0] / k)[0][0] for k in (1, 2, 4))\n"
        "        D, E = (4 * B - A) / 3, (4 * C - B) / 3\n"
        "        found.append(((16 * E - D) / 15).numpy() @ g_)\n"
        "    return np.reshape(found, g.shape).astype(g.dtype)\n",
        "reached",
    ),
    "autograd": (
        "02.2",
        gradient("v.requires_grad_()\nreturn torch.autograd.grad(forward(v, s), v, g)[0]"),
        "refused",
    ),
    "backward": (
        "02.2",
        gradient("v.requires_grad_()\nforward(v, s).backward(g)\nreturn v.grad"),
        "refused",
    ),
    "a walk over the graph": (
        "02.2",
        gradient(
            "v.requires_grad_()\ny = forward(v, s)\ngrads, total = {y.grad_fn: g}, 0\n"
            "order, seen = [], set()\n"
            "def visit(n):\n"
            "    if n is None or n in seen: return\n"
            "    seen.add(n)\n"
            "    for m, _ in n.next_functions: visit(m)\n"
            "    order.append(n)\n"
            "visit(y.grad_fn)\n"
            "for n in reversed(order):\n"
            "    if hasattr(n, 'variable'):\n"
            "        total = total + grads[n]; continue\n"
            "    out = n(grads[n]); out = out if isinstance(out, tuple) else (out,)\n"
            "    for (m, i), d in zip(n.next_functions, out):\n"
            "        if m is not None and d is not None:\n"
            "            d = d.sum_to_size(m._input_metadata[i].shape)\n"
            "            grads[m] = grads.get(m, 0) + d\n"
            "return total"
        ),
        "reached",
    ),
    "the engine": (
        "02.2",
        gradient(
            "from torch.autograd.graph import _engine_run_backward as run\n"
            "v.requires_grad_()\n"
            "run((forward(v, s),), (g,), False, False, (v,), accumulate_grad=True)\n"
            "return v.grad"
        ),
        "refused",
    ),
    "an engine of its own": (
        "02.2",
        gradient(
            "v.requires_grad_()\n"
            "torch._C._ImperativeEngine().run_backward((forward(v, s),), (g,), False, False,"
            " (), allow_unreachable=True, accumulate_grad=True)\nreturn v.grad"
        ),
        "refused",
    ),
    "derivatives of functions": (
        "02.2",
        gradient("from torch.func import vjp\nreturn vjp(lambda v: forward(v, s), v)[1](g)[0]"),
        "refused",
    ),
    "the library's backward": (
        "02.2",
        gradient(
            "return torch.ops.aten.native_layer_norm_backward(g, v, v.shape[-1:],"
            " torch.zeros_like(s), s, None, None, [True, False, False])[0]"
        ),
        "refused",
    ),
}
