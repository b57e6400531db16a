//go:build amd64 && !purego

#include "textflag.h"

// The portable loops of vector.go, on vectors of 16 bytes; rows are 4416 bytes apart.

// func addFour32Vectors(dst *uint32, rows *byte, count int, extra uint32)
TEXT ·addFour32Vectors(SB), NOSPLIT, $0-28
	MOVQ dst+0(FP), DI
	MOVQ rows+8(FP), SI
	MOVQ count+16(FP), CX
	MOVL extra+24(FP), X5
	PSHUFL $0, X5, X5

four32:
	MOVOU (DI), X0
	MOVOU (SI), X1
	MOVOU 4416(SI), X2
	MOVOU 8832(SI), X3
	MOVOU 13248(SI), X4
	PADDL X5, X0
	PADDL X1, X2
	PADDL X3, X4
	PADDL X2, X0
	PADDL X4, X0
	MOVOU X0, (DI)
	ADDQ  $16, DI
	ADDQ  $16, SI
	DECQ  CX
	JNZ   four32
	RET

// func addFour64Vectors(dst *uint64, rows *byte, count int, extra uint64)
TEXT ·addFour64Vectors(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ rows+8(FP), SI
	MOVQ count+16(FP), CX
	MOVQ extra+24(FP), X5
	PUNPCKLQDQ X5, X5

four64:
	MOVOU (DI), X0
	MOVOU (SI), X1
	MOVOU 4416(SI), X2
	MOVOU 8832(SI), X3
	MOVOU 13248(SI), X4
	PADDQ X5, X0
	PADDQ X1, X2
	PADDQ X3, X4
	PADDQ X2, X0
	PADDQ X4, X0
	MOVOU X0, (DI)
	ADDQ  $16, DI
	ADDQ  $16, SI
	DECQ  CX
	JNZ   four64
	RET
