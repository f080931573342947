/* A thread that writes frames of the log, without the interpreter.
 *
 * A thread of Python's takes the interpreter's lock several times for each sync, and waits for it beside a busy event
 * loop. This one never does. The loop hands it one frame at a time; the thread writes it to a file that was opened with
 * O_DSYNC, so that it is synced when the call returns, and signals an eventfd, which the loop watches. The loop then
 * takes the result, and with it the frame back.
 *
 * The frame and the fields of a write belong to the loop while `state` is IDLE or ENDED, and to the thread while it is
 * UNDER_WAY. `given` hands them over, `state` gives them back; `given` without a write under way ends the thread. A frame
 * is a bytes object: it does not change, and a reference that only the loop counts keeps it where it is.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum state { IDLE, UNDER_WAY, ENDED };

typedef struct {
    PyObject_HEAD
    pthread_t thread;
    pid_t process;
    int running;
    int ended;
    sem_t given;
    atomic_int state;
    PyObject *frame;
    int file;
    off_t offset;
    int error;
    double began_s, ended_s;
} LogWriter;

/* Of the clock of time.monotonic(). */
static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

/* All of it, or the error of the call that failed. A call that writes nothing and has no error would never end. */
static int write_all(int file, const char *data, size_t left, off_t offset)
{
    while (left) {
        ssize_t size = pwrite(file, data, left, offset);
        if (size > 0) {
            data += size;
            left -= size;
            offset += size;
        } else if (size == 0) {
            return EIO;
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

static void *run(void *argument)
{
    LogWriter *writer = argument;
    for (;;) {
        while (sem_wait(&writer->given))
            ;
        if (atomic_load_explicit(&writer->state, memory_order_acquire) != UNDER_WAY)
            return NULL;
        writer->began_s = now_s();
        writer->error = write_all(writer->file, PyBytes_AS_STRING(writer->frame), PyBytes_GET_SIZE(writer->frame),
                                  writer->offset);
        writer->ended_s = now_s();
        atomic_store_explicit(&writer->state, ENDED, memory_order_release);
        eventfd_write(writer->ended, 1);
    }
}

/* Signals are for the threads that know of Python; a fault of this one is still told. */
static int start(LogWriter *writer)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&blocked, faults[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    int error = pthread_create(&writer->thread, NULL, run, writer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error)
        pthread_setname_np(writer->thread, "epoxy-log");
    return error;
}

static PyObject *create(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {NULL};
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, ":LogWriter", names))
        return NULL;
    LogWriter *writer = (LogWriter *)type->tp_alloc(type, 0);
    if (!writer)
        return NULL;
    sem_init(&writer->given, 0, 0);
    writer->process = getpid();
    writer->ended = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = writer->ended < 0 ? errno : start(writer);
    writer->running = !error;
    if (error) {
        Py_DECREF(writer);
        errno = error;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    return (PyObject *)writer;
}

/* A process that was forked has the object and not the thread. */
static void stop(LogWriter *writer)
{
    if (writer->running && writer->process == getpid()) {
        sem_post(&writer->given);
        Py_BEGIN_ALLOW_THREADS
        pthread_join(writer->thread, NULL);
        Py_END_ALLOW_THREADS
    }
    writer->running = 0;
    if (writer->ended >= 0)
        close(writer->ended);
    writer->ended = -1;
    Py_CLEAR(writer->frame);
}

static void destroy(LogWriter *writer)
{
    PyTypeObject *type = Py_TYPE(writer);
    stop(writer);
    sem_destroy(&writer->given);
    type->tp_free(writer);
    Py_DECREF(type);
}

static PyObject *not_running(void)
{
    PyErr_SetString(PyExc_ValueError, "the writer is closed");
    return NULL;
}

static PyObject *method_fileno(LogWriter *writer, PyObject *unused)
{
    return writer->running ? PyLong_FromLong(writer->ended) : not_running();
}

static PyObject *method_write(LogWriter *writer, PyObject *arguments)
{
    int file;
    PyObject *frame;
    long long offset;
    if (!PyArg_ParseTuple(arguments, "iSL:write", &file, &frame, &offset))
        return NULL;
    if (!writer->running)
        return not_running();
    if (atomic_load_explicit(&writer->state, memory_order_acquire) != IDLE) {
        PyErr_SetString(PyExc_RuntimeError, "a frame is under way");
        return NULL;
    }
    writer->frame = Py_NewRef(frame);
    writer->file = file;
    writer->offset = offset;
    atomic_store_explicit(&writer->state, UNDER_WAY, memory_order_relaxed);
    sem_post(&writer->given);
    Py_RETURN_NONE;
}

static PyObject *method_take(LogWriter *writer, PyObject *unused)
{
    eventfd_t count;
    if (!writer->running)
        return not_running();
    eventfd_read(writer->ended, &count);
    if (atomic_load_explicit(&writer->state, memory_order_acquire) != ENDED)
        Py_RETURN_NONE;
    Py_CLEAR(writer->frame);
    atomic_store_explicit(&writer->state, IDLE, memory_order_relaxed);
    return Py_BuildValue("idd", writer->error, writer->began_s, writer->ended_s);
}

static PyObject *method_close(LogWriter *writer, PyObject *unused)
{
    stop(writer);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"fileno", (PyCFunction)method_fileno, METH_NOARGS, "Readable when a write has ended."},
    {"write", (PyCFunction)method_write, METH_VARARGS, "Hand over a frame: file, frame, offset."},
    {"take", (PyCFunction)method_take, METH_NOARGS, "(errno, began_s, ended_s) of a write that has ended, or None."},
    {"close", (PyCFunction)method_close, METH_NOARGS, "Returns when the write under way has ended."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Writes frames in a thread, one at a time."},
    {Py_tp_new, create},
    {Py_tp_dealloc, destroy},
    {Py_tp_methods, methods},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "epoxy.store.embedded.log_writer.LogWriter",
    .basicsize = sizeof(LogWriter),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

static int fill(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &spec, NULL);
    int failed = !type || PyModule_AddType(module, (PyTypeObject *)type);
    Py_XDECREF(type);
    return failed ? -1 : 0;
}

static PyModuleDef_Slot parts[] = {{Py_mod_exec, fill}, {0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "log_writer", .m_slots = parts};

PyMODINIT_FUNC PyInit_log_writer(void)
{
    return PyModuleDef_Init(&definition);
}
