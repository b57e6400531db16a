//go:build amd64 && !purego

#include "textflag.h"

// The portable loops of cholesky.go, on vectors of four numbers. Each number is the sum of the same
// products in the same order.

// LESS subtracts by[i] times a row.
#define LESS(i, row, to) \
	VBROADCASTSD (8*i)(DX), Y15 \
	VMULPD       row, Y15, Y15  \
	VSUBPD       Y15, to, to

// TIMES multiplies a row by by[i].
#define TIMES(i, to) \
	VBROADCASTSD (8*i)(DX), Y15 \
	VMULPD       Y15, to, to

// SQUARE adds the squares of a row.
#define SQUARE(row, to) \
	VMULPD row, row, Y14 \
	VADDPD Y14, to, to

// func panelVectors(rows *float64, stride, groups int, by *above, even, odd, right *float64)
TEXT ·panelVectors(SB), NOSPLIT, $0-56
	MOVQ rows+0(FP), R8
	MOVQ stride+8(FP), AX
	MOVQ groups+16(FP), CX
	MOVQ by+24(FP), DX
	MOVQ even+32(FP), SI
	MOVQ odd+40(FP), DI
	MOVQ right+48(FP), BX
	SHLQ $3, AX
	LEAQ (R8)(AX*1), R9
	LEAQ (R8)(AX*2), R10
	LEAQ (R9)(AX*2), R11
	XORQ AX, AX

group:
	VMOVUPD (R8)(AX*1), Y0
	VMOVUPD (R9)(AX*1), Y1
	VMOVUPD (R10)(AX*1), Y2
	VMOVUPD (R11)(AX*1), Y3
	VMOVUPD (SI)(AX*1), Y4
	VMOVUPD (DI)(AX*1), Y5
	VMOVUPD (BX)(AX*1), Y6
	TIMES(0, Y0)
	LESS(4, Y0, Y1)
	LESS(5, Y0, Y2)
	LESS(6, Y0, Y3)
	TIMES(1, Y1)
	LESS(7, Y1, Y2)
	LESS(8, Y1, Y3)
	TIMES(2, Y2)
	LESS(9, Y2, Y3)
	TIMES(3, Y3)
	SQUARE(Y0, Y4)
	SQUARE(Y2, Y4)
	SQUARE(Y1, Y5)
	SQUARE(Y3, Y5)
	LESS(10, Y0, Y6)
	LESS(11, Y1, Y6)
	LESS(12, Y2, Y6)
	LESS(13, Y3, Y6)
	VMOVUPD Y0, (R8)(AX*1)
	VMOVUPD Y1, (R9)(AX*1)
	VMOVUPD Y2, (R10)(AX*1)
	VMOVUPD Y3, (R11)(AX*1)
	VMOVUPD Y4, (SI)(AX*1)
	VMOVUPD Y5, (DI)(AX*1)
	VMOVUPD Y6, (BX)(AX*1)
	ADDQ    $32, AX
	DECQ    CX
	JNZ     group
	VZEROUPPER
	RET

// func subtractVectors(rows *float64, stride, count, groups int)
TEXT ·subtractVectors(SB), NOSPLIT, $0-32
	MOVQ rows+0(FP), R8
	MOVQ stride+8(FP), AX
	MOVQ count+16(FP), BX
	MOVQ groups+24(FP), DX
	SHLQ $3, AX
	LEAQ (R8)(AX*1), R9
	LEAQ (R8)(AX*2), R10
	LEAQ (R9)(AX*2), R12
	LEAQ (R8)(AX*4), R11
	XORQ DI, DI

pair:
	CMPQ         BX, $1
	JLT          done
	LEAQ         (R11)(AX*1), R13
	VBROADCASTSD (R8)(DI*1), Y0
	VBROADCASTSD (R9)(DI*1), Y1
	VBROADCASTSD (R10)(DI*1), Y2
	VBROADCASTSD (R12)(DI*1), Y3
	XORQ         SI, SI
	MOVQ         DX, CX
	CMPQ         BX, $1
	JEQ          single
	VBROADCASTSD 8(R8)(DI*1), Y4
	VBROADCASTSD 8(R9)(DI*1), Y5
	VBROADCASTSD 8(R10)(DI*1), Y6
	VBROADCASTSD 8(R12)(DI*1), Y7

both:
	VMOVUPD (R8)(SI*1), Y10
	VMOVUPD (R9)(SI*1), Y11
	VMOVUPD (R10)(SI*1), Y12
	VMOVUPD (R12)(SI*1), Y13
	VMOVUPD (R11)(SI*1), Y8
	VMOVUPD (R13)(SI*1), Y9
	VMULPD  Y0, Y10, Y14
	VMULPD  Y4, Y10, Y15
	VSUBPD  Y14, Y8, Y8
	VSUBPD  Y15, Y9, Y9
	VMULPD  Y1, Y11, Y14
	VMULPD  Y5, Y11, Y15
	VSUBPD  Y14, Y8, Y8
	VSUBPD  Y15, Y9, Y9
	VMULPD  Y2, Y12, Y14
	VMULPD  Y6, Y12, Y15
	VSUBPD  Y14, Y8, Y8
	VSUBPD  Y15, Y9, Y9
	VMULPD  Y3, Y13, Y14
	VMULPD  Y7, Y13, Y15
	VSUBPD  Y14, Y8, Y8
	VSUBPD  Y15, Y9, Y9
	VMOVUPD Y8, (R11)(SI*1)
	VMOVUPD Y9, (R13)(SI*1)
	ADDQ    $32, SI
	DECQ    CX
	JNZ     both
	SUBQ    $2, BX
	LEAQ    (R11)(AX*2), R11
	XORQ    $16, DI
	JNZ     pair
	ADDQ    $32, R8
	ADDQ    $32, R9
	ADDQ    $32, R10
	ADDQ    $32, R12
	ADDQ    $32, R11
	DECQ    DX
	JMP     pair

single:
	VMOVUPD (R11)(SI*1), Y8
	VMULPD  (R8)(SI*1), Y0, Y14
	VSUBPD  Y14, Y8, Y8
	VMULPD  (R9)(SI*1), Y1, Y14
	VSUBPD  Y14, Y8, Y8
	VMULPD  (R10)(SI*1), Y2, Y14
	VSUBPD  Y14, Y8, Y8
	VMULPD  (R12)(SI*1), Y3, Y14
	VSUBPD  Y14, Y8, Y8
	VMOVUPD Y8, (R11)(SI*1)
	ADDQ    $32, SI
	DECQ    CX
	JNZ     single

done:
	VZEROUPPER
	RET
