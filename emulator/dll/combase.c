/* combase.dll: COM's memory, which is all of COM that a client of HNS needs, without the rest. Wine's own brings ole32, user32 and gdi32 along,
 * whose start takes 25 ms in each program that frees a text of HNS (Wine 8.0). Every other function goes on to Wine's own, which is loaded
 * when one is called first (winecomb.dll is a copy of it). Forwards of the linker would not do: ole32 and combase import each other, and
 * Wine does not find what is forwarded to a library that it is loading. */
#define WIN32_LEAN_AND_MEAN /* without declarations of functions that are made here */
#include <windows.h>

/* Memory is that of the process' heap, as Wine's own (dlls/combase/malloc.c): one may allocate what the other frees. */
void *WINAPI CoTaskMemAlloc(SIZE_T size) { return HeapAlloc(GetProcessHeap(), 0, size); }

void WINAPI CoTaskMemFree(void *memory)
{
	if (memory)
		HeapFree(GetProcessHeap(), 0, memory);
}

static HRESULT missing(void) { return E_NOTIMPL; }

/* combase_find finds a function of Wine's and keeps it in its slot. */
__attribute__((used)) FARPROC combase_find(const char *name, FARPROC *slot)
{
	HMODULE wine = LoadLibraryW(L"winecomb.dll");
	FARPROC found = wine ? GetProcAddress(wine, name) : NULL;

	return *slot = found ? found : (FARPROC)(void *)missing;
}

/* thunk_NAME jumps to the function in the slot. first_NAME, which is there at the beginning, has it looked up. */
#define FUNCTION(name)                                                                                                              \
	__asm__(".globl thunk_" #name "\n"                                                                                          \
		"thunk_" #name ":\n\tjmp *slot_" #name "(%rip)\n"                                                                   \
		"first_" #name ":\n\tlea text_" #name "(%rip), %rax\n\tlea slot_" #name "(%rip), %r11\n\tjmp look_up\n"            \
		".data\n\t.balign 8\nslot_" #name ":\n\t.quad first_" #name "\ntext_" #name ":\n\t.asciz \"" #name "\"\n.text\n");
#include "combase_functions.h" /* FUNCTION(NAME) for each thunk of combase.def: build.sh */

/* look_up calls combase_find with everything as the caller left it, and goes on to what it found. At its beginning the stack is 8 bytes off
 * a multiple of 16. */
__asm__(".text\n"
	"look_up:\n"
	"	pushq %rcx\n	pushq %rdx\n	pushq %r8\n	pushq %r9\n"
	"	subq $0x68, %rsp\n" /* 32 bytes for combase_find, 64 for the registers, 8 */
	"	movups %xmm0, 0x20(%rsp)\n	movups %xmm1, 0x30(%rsp)\n	movups %xmm2, 0x40(%rsp)\n	movups %xmm3, 0x50(%rsp)\n"
	"	movq %rax, %rcx\n	movq %r11, %rdx\n"
	"	call combase_find\n"
	"	movups 0x20(%rsp), %xmm0\n	movups 0x30(%rsp), %xmm1\n	movups 0x40(%rsp), %xmm2\n	movups 0x50(%rsp), %xmm3\n"
	"	addq $0x68, %rsp\n"
	"	popq %r9\n	popq %r8\n	popq %rdx\n	popq %rcx\n"
	"	jmp *%rax\n");
