#include "mend.h"

#include <string.h>

/* A system call of Wine 8.0's ntdll: the call's number stands at NUMBER. The code does not depend on where it lies, so that a
 * copy of it still makes the call. Observed with Debian's 8.0~repack-4. */
#define NUMBER 4
#ifndef STUB_FIRST
#define STUB_FIRST 0x4c /* a test builds the DLL with another one: then Wine is unknown to it */
#endif
static const BYTE stub[] = { STUB_FIRST, 0x8b, 0xd1, 0xb8, 0, 0, 0, 0, 0xf6, 0x04, 0x25, 0x08, 0x03, 0xfe, 0x7f, 0x01,
			     0x75, 0x03, 0x0f, 0x05, 0xc3, 0xeb, 0x01, 0xc3, 0xff, 0x14, 0x25, 0x00, 0x10, 0xfe, 0x7f, 0xc3 };

#define JUMP 12 /* bytes */

/* The lists, each with the mend that it is part of. The functions of file_mends do several ones. */
static const struct {
	struct mend *first;
	int part_of; /* enum mend_switch; SWITCHES: of several */
} lists[] = {
	{ pipe_mends, MEND_PIPE }, { file_mends, SWITCHES }, { link_mends, MEND_LINK }, { registry_mends, MEND_REGISTRY },
	{ job_mends, MEND_JOB }, { backup_mends, MEND_BACKUP }, { text_mends, MEND_TEXT }, { volume_mends, MEND_VOLUME },
	{ console_mends, MEND_CONSOLE }, { service_mends, MEND_SERVICE }, { process_mends, MEND_PROCESS },
	{ user_mends, MEND_USER }, { owner_mends, MEND_OWNER }, { sleep_mends, MEND_SLEEP },
	{ environment_mends, MEND_ENVIRONMENT }, { exit_mends, MEND_EXIT },
	{ path_mends, MEND_PATH },
};

static BOOL is_stub(const BYTE *code)
{
	return !memcmp(code, stub, NUMBER) && !memcmp(code + NUMBER + 4, stub + NUMBER + 4, sizeof stub - NUMBER - 4);
}

/* Writes a jump to target over the code. */
static BOOL jump(BYTE *code, void *target)
{
	BYTE bytes[JUMP] = { 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0 }; /* mov $target, %rax; jmp *%rax */
	DWORD before;

	memcpy(bytes + 2, &target, sizeof target);
	if (!VirtualProtect(code, JUMP, PAGE_EXECUTE_READWRITE, &before))
		return FALSE;
	memcpy(code, bytes, JUMP);
	VirtualProtect(code, JUMP, before, &before);
	return TRUE;
}

/* Finds the place through which kernel32 passes a function on to kernelbase, as it does most: a jump to what stands there. */
static BYTE **slot_of(HMODULE kernel, const char *name)
{
	static const BYTE passes_on[] = { 0x48, 0x8d, 0xa4, 0x24, 0, 0, 0, 0, 0xff, 0x25 }; /* lea 0(%rsp),%rsp; jmp *offset(%rip) */
	BYTE *code = (BYTE *)(void *)GetProcAddress(kernel, name);
	INT32 offset;

	if (!code || memcmp(code, passes_on, sizeof passes_on))
		return NULL;
	code += sizeof passes_on - 2;
	memcpy(&offset, code + 2, sizeof offset);
	return (BYTE **)(code + 6 + offset);
}

/* Replaces a function that kernel32 passes on, which goes on to exist. */
static BOOL replace_passed(struct mend *m, HMODULE kernel)
{
	BYTE **slot = slot_of(kernel, m->name);
	DWORD before;

	if (!slot || !VirtualProtect(slot, sizeof *slot, PAGE_READWRITE, &before))
		return FALSE;
	*m->original = *slot;
	*slot = m->replacement;
	VirtualProtect(slot, sizeof *slot, before, &before);
	return TRUE;
}

/* Replaces a system call. The copy of its stub goes to *place, which moves on. */
static BOOL replace_call(struct mend *m, BYTE *code, BYTE **place)
{
	if (!code || !is_stub(code) || !*place)
		return FALSE;
	memcpy(*place, code, sizeof stub);
	*m->original = *place;
	*place += sizeof stub;
	return jump(code, m->replacement);
}

/* Returns how many bytes of a function's first code a jump overwrites, as whole instructions; 0: one of them is none
 * that works at another place too. Those that are known save registers and make room on the stack, which is what the
 * functions begin with that are replaced so. The registers and the room differ between Wine 8.0 and 10.0. */
static size_t movable(const BYTE *code)
{
	static const BYTE small_room[] = { 0x48, 0x83, 0xec }, large_room[] = { 0x48, 0x81, 0xec }; /* sub $n,%rsp */
	static const BYTE room_added[] = { 0x48, 0x83, 0xc4 };					    /* add $-n,%rsp */
	size_t n = 0;

	while (n < JUMP)
		if ((code[n] & 0xf8) == 0x50) /* push */
			n += 1;
		else if (code[n] == 0x41 && (code[n + 1] & 0xf8) == 0x50) /* push of %r8 to %r15 */
			n += 2;
		else if (!memcmp(code + n, small_room, sizeof small_room) || !memcmp(code + n, room_added, sizeof room_added))
			n += sizeof small_room + 1;
		else if (!memcmp(code + n, large_room, sizeof large_room))
			n += sizeof large_room + 4;
		else
			return 0;
	return n;
}

/* Replaces a function of another library. Where the original is wanted, a copy of its first code goes to *place, with a jump to the rest. */
static BOOL replace_function(struct mend *m, BYTE **place)
{
	HMODULE library = GetModuleHandleW(m->library);
	BYTE *code = library ? (BYTE *)(void *)GetProcAddress(library, m->name) : NULL;
	BYTE rest[JUMP] = { 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0 }, *after;
	size_t saved;

	if (!code)
		return FALSE;
	if (m->original) {
		saved = movable(code);
		after = code + saved;
		if (!saved || !*place)
			return FALSE;
		memcpy(*place, code, saved);
		memcpy(rest + 2, &after, sizeof after);
		memcpy(*place + saved, rest, JUMP);
		*m->original = *place;
		*place += saved + JUMP;
	}
	return jump(code, m->replacement);
}

/* Replaces what a mend replaces. */
static BOOL replace(struct mend *m, HMODULE kernel, BYTE **place)
{
	if (m->library)
		return replace_function(m, place);
	if (m->original && !m->missing)
		return replace_call(m, (BYTE *)*m->original, place);
	if (m->original)
		return !m->missing() || replace_passed(m, kernel);
	return !m->missing() || jump((BYTE *)(void *)GetProcAddress(kernel, m->name), m->replacement);
}

static BOOL is_on(int part_of) { return part_of == SWITCHES || mend_on[part_of]; }

/* Begins the mends that replace no function. */
static void begin(void)
{
	if (mend_on[MEND_ADMIN])
		admin_begin();
	if (mend_on[MEND_SERVICE])
		service_begin();
	if (mend_on[MEND_CONSOLE])
		console_begin();
}

void mend_all(void)
{
	static LONG begun;
	HMODULE ntdll = GetModuleHandleW(L"ntdll.dll"), kernel = GetModuleHandleW(L"kernel32.dll");
	BYTE *copies, *place;
	struct mend *m;
	DWORD before;
	size_t i;

	if (InterlockedExchange(&begun, 1))
		return;
	switches_read();
	begin();
	copies = place = VirtualAlloc(NULL, 0x1000, MEM_COMMIT | MEM_RESERVE, PAGE_READWRITE);
	for (i = 0; i < COUNT(lists); i++)
		for (m = lists[i].first; m->name; m++)
			if (m->original && !m->missing && !m->library)
				*m->original = (void *)GetProcAddress(ntdll, m->name);
	if (copies)
		VirtualProtect(copies, 0x1000, PAGE_EXECUTE_READWRITE, &before);

	for (i = 0; i < COUNT(lists); i++)
		for (m = lists[i].first; m->name; m++)
			m->done = !is_on(lists[i].part_of) || replace(m, kernel, &place);
	if (copies)
		VirtualProtect(copies, 0x1000, PAGE_EXECUTE_READ, &before);
}

/* What the functions of file_mends are for, by which a mend that is part of them does not fit. */
static const char *part_name(int part_of)
{
	return part_of == SWITCHES ? "file" : mend_name((enum mend_switch)part_of);
}

/* Adds a text where it has room. */
static void add(char *text, int size, const char *more)
{
	if (lstrlenA(text) + lstrlenA(more) < size)
		lstrcatA(text, more);
}

/* Writes what could not be mended into text, as "NAME: WHAT" with a new line after each, and returns how many these are.
 * With parts the name of the mend stands before it. */
static int unmended(char *text, int size, BOOL parts)
{
	struct mend *m;
	int count = 0;
	size_t i;

	if (size > 0)
		*text = 0;
	for (i = 0; i < COUNT(lists); i++)
		for (m = lists[i].first; m->name; m++) {
			if (m->done)
				continue;
			count++;
			if (lstrlenA(text) + lstrlenA(m->name) + lstrlenA(m->what) + 24 > size)
				continue; /* 24: for the rest of the line */
			if (parts) {
				add(text, size, part_name(lists[i].part_of));
				add(text, size, " ");
			}
			add(text, size, m->name);
			add(text, size, ": ");
			add(text, size, m->what);
			add(text, size, "\n");
		}
	return count;
}

/* porthole_unmended says what could not be mended. Zero: this Wine is one that we know. */
__declspec(dllexport) int porthole_unmended(char *text, int size) { return unmended(text, size, FALSE); }

/* porthole_unfit is porthole_unmended with the name of the mend before each line, for programs. */
__declspec(dllexport) int porthole_unfit(char *text, int size) { return unmended(text, size, TRUE); }
