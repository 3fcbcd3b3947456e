/* A DLL of ours in front of Wine's own of the same name, which waits in system32\builtin. By name a process has one DLL, so
 * ours loads the other by path and leads functions there: in a .def file, `name = thunk_N @N` goes on to the function of that name. */
#ifndef BUILTIN_H
#define BUILTIN_H

#include <windows.h>

#define BUILTIN_LAST 500

/* Addresses of Wine's functions, by our ordinals; NULL where there is none. Filled before any program runs. */
extern FARPROC builtin_function[BUILTIN_LAST + 1];

/* Loads Wine's DLL, for DllMain. FALSE if it is not there. */
BOOL builtin_load(const WCHAR *name);

#endif
