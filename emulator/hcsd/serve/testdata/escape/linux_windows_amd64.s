#include "textflag.h"

// func linux(number, a, b, c, d, e, f uintptr) (result uintptr)
TEXT ·linux(SB), NOSPLIT, $0-64
	MOVQ number+0(FP), AX
	MOVQ a+8(FP), DI
	MOVQ b+16(FP), SI
	MOVQ c+24(FP), DX
	MOVQ d+32(FP), R10
	MOVQ e+40(FP), R8
	MOVQ f+48(FP), R9
	SYSCALL
	MOVQ AX, result+56(FP)
	RET
