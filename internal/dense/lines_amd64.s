//go:build amd64 && !purego

#include "textflag.h"

// The portable loops of lines.go, on vectors of four numbers. Each number is the sum of the same
// products in the same order.

#define ROW_OF_TWO(i, lo, hi) \
	VBROADCASTSD (8*i)(SI), Y13 \
	VMULPD       Y13, Y11, Y14  \
	VMULPD       Y13, Y12, Y15  \
	VADDPD       Y14, lo, lo    \
	VADDPD       Y15, hi, hi

#define ROW_OF_ONE(i, hi) \
	VBROADCASTSD (8*i)(SI), Y13 \
	VMULPD       Y13, Y12, Y14  \
	VADDPD       Y14, hi, hi

// func addSquaresVectors(a, lines *float64, count int)
TEXT ·addSquaresVectors(SB), NOSPLIT, $0-24
	MOVQ    a+0(FP), DI
	MOVQ    lines+8(FP), SI
	MOVQ    count+16(FP), CX
	VMOVUPD 0(DI), Y0
	VMOVUPD 32(DI), Y1
	VMOVUPD 64(DI), Y2
	VMOVUPD 96(DI), Y3
	VMOVUPD 128(DI), Y4
	VMOVUPD 160(DI), Y5
	VMOVUPD 192(DI), Y6
	VMOVUPD 224(DI), Y7
	VMOVUPD 288(DI), Y8
	VMOVUPD 352(DI), Y9
	VMOVUPD 416(DI), Y10

line:
	VMOVUPD (SI), Y11
	VMOVUPD 32(SI), Y12
	ROW_OF_TWO(0, Y0, Y1)
	ROW_OF_TWO(1, Y2, Y3)
	ROW_OF_TWO(2, Y4, Y5)
	ROW_OF_TWO(3, Y6, Y7)
	ROW_OF_ONE(4, Y8)
	ROW_OF_ONE(5, Y9)
	ROW_OF_ONE(6, Y10)
	ADDQ $64, SI
	DECQ CX
	JNZ  line

	VMOVUPD Y0, 0(DI)
	VMOVUPD Y1, 32(DI)
	VMOVUPD Y2, 64(DI)
	VMOVUPD Y3, 96(DI)
	VMOVUPD Y4, 128(DI)
	VMOVUPD Y5, 160(DI)
	VMOVUPD Y6, 192(DI)
	VMOVUPD Y7, 224(DI)
	VMOVUPD Y8, 288(DI)
	VMOVUPD Y9, 352(DI)
	VMOVUPD Y10, 416(DI)
	VZEROUPPER
	RET

// func pickVectors(dst, lines *float64, at *int32, count int)
TEXT ·pickVectors(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ lines+8(FP), SI
	MOVQ at+16(FP), DX
	MOVQ count+24(FP), CX

row:
	MOVLQSX   (DX), AX
	SHLQ      $6, AX
	VMOVUPD   (SI)(AX*1), Y0
	VMOVUPD   32(SI)(AX*1), Y1
	VMOVUPD   Y0, (DI)
	VMOVUPD   Y1, 32(DI)
	ADDQ      $4, DX
	ADDQ      $64, DI
	DECQ      CX
	JNZ       row
	VZEROUPPER
	RET

// func addToSidesVectors(sides, lines *float64, step int, at *int32, count int, kind, start *int32, entry *uint64, values *float64)
TEXT ·addToSidesVectors(SB), NOSPLIT, $0-72
	MOVQ sides+0(FP), DI
	MOVQ lines+8(FP), SI
	MOVQ step+16(FP), R8
	MOVQ at+24(FP), DX
	MOVQ count+32(FP), CX
	MOVQ kind+40(FP), R9
	MOVQ start+48(FP), R10
	MOVQ entry+56(FP), R11
	MOVQ values+64(FP), R12
	SHLQ $3, R8

line:
	MOVLQSX (DX), AX
	MOVLQSX (R9)(AX*4), AX
	MOVLQSX (R10)(AX*4), BX
	MOVLQSX 4(R10)(AX*4), R13
	LEAQ    (R11)(BX*8), BX
	LEAQ    (R11)(R13*8), R13
	CMPQ    BX, R13
	JGE     next
	CMPQ    R8, $64
	JNE     long
	VMOVUPD (SI), Y0
	VMOVUPD 32(SI), Y1

eight:
	MOVQ         (BX), AX
	MOVBLZX      AX, R15
	SHRQ         $8, AX
	SHLQ         $6, R15
	VBROADCASTSD (R12)(AX*8), Y2
	VMULPD       Y2, Y0, Y3
	VMULPD       Y2, Y1, Y4
	VADDPD       (DI)(R15*1), Y3, Y3
	VADDPD       32(DI)(R15*1), Y4, Y4
	VMOVUPD      Y3, (DI)(R15*1)
	VMOVUPD      Y4, 32(DI)(R15*1)
	ADDQ         $8, BX
	CMPQ         BX, R13
	JLT          eight
	JMP          next

long:
	MOVQ         (BX), AX
	MOVBLZX      AX, R15
	SHRQ         $8, AX
	IMULQ        R8, R15
	ADDQ         DI, R15
	VBROADCASTSD (R12)(AX*8), Y2
	XORQ         AX, AX

four:
	VMULPD  (SI)(AX*1), Y2, Y3
	VADDPD  (R15)(AX*1), Y3, Y3
	VMOVUPD Y3, (R15)(AX*1)
	ADDQ    $32, AX
	CMPQ    AX, R8
	JLT     four
	ADDQ    $8, BX
	CMPQ    BX, R13
	JLT     long

next:
	ADDQ $4, DX
	ADDQ R8, SI
	DECQ CX
	JNZ  line
	VZEROUPPER
	RET

// func addPairsOfRows(sums *float64, at *int32, count int, kind, start *int32, pair *uint64, products *float64)
TEXT ·addPairsOfRows(SB), NOSPLIT, $0-56
	MOVQ sums+0(FP), DI
	MOVQ at+8(FP), DX
	MOVQ count+16(FP), CX
	MOVQ kind+24(FP), R9
	MOVQ start+32(FP), R10
	MOVQ pair+40(FP), R11
	MOVQ products+48(FP), R12

row:
	MOVLQSX (DX), AX
	MOVLQSX (R9)(AX*4), AX
	MOVLQSX (R10)(AX*4), BX
	MOVLQSX 4(R10)(AX*4), R13
	LEAQ    (R11)(BX*8), BX
	LEAQ    (R11)(R13*8), R13
	CMPQ    BX, R13
	JGE     next

pair:
	MOVQ    (BX), AX
	MOVWLZX AX, R15
	SHRQ    $16, AX
	MOVSD   (R12)(AX*8), X0
	ADDSD   (DI)(R15*8), X0
	MOVSD   X0, (DI)(R15*8)
	ADDQ    $8, BX
	CMPQ    BX, R13
	JLT     pair

next:
	ADDQ $4, DX
	DECQ CX
	JNZ  row
	RET

// func multiplyVectors(dst *float64, at *int32, count int, kind, start *int32, entry *uint64, values *float64, weights *[Lane]float64, parts *[2][Lane]float64, numbers *float64)
TEXT ·multiplyVectors(SB), NOSPLIT, $0-80
	MOVQ    dst+0(FP), DI
	MOVQ    at+8(FP), DX
	MOVQ    count+16(FP), CX
	MOVQ    kind+24(FP), R9
	MOVQ    start+32(FP), R10
	MOVQ    entry+40(FP), R11
	MOVQ    values+48(FP), R12
	MOVQ    weights+56(FP), SI
	MOVQ    parts+64(FP), AX
	MOVQ    numbers+72(FP), R8
	VMOVUPD (AX), Y5
	VMOVUPD 32(AX), Y6

row:
	MOVLQSX      (DX), AX
	VBROADCASTSD (R8)(AX*8), Y0
	VMULPD       Y0, Y6, Y0
	VADDPD       Y0, Y5, Y0
	MOVLQSX      (R9)(AX*4), AX
	MOVLQSX      (R10)(AX*4), BX
	MOVLQSX      4(R10)(AX*4), R13
	LEAQ         (R11)(BX*8), BX
	LEAQ         (R11)(R13*8), R13
	CMPQ         BX, R13
	JGE          sum

entry:
	MOVQ         (BX), AX
	MOVBLZX      AX, R15
	SHRQ         $8, AX
	SHLQ         $5, R15
	VBROADCASTSD (R12)(AX*8), Y1
	VMULPD       (SI)(R15*1), Y1, Y1
	VADDPD       Y1, Y0, Y0
	ADDQ         $8, BX
	CMPQ         BX, R13
	JLT          entry

sum:
	VEXTRACTF128 $1, Y0, X1
	VADDPD       X1, X0, X0
	VPERMILPD    $1, X0, X1
	VADDSD       X1, X0, X0
	VMOVSD       X0, (DI)
	ADDQ         $4, DX
	ADDQ         $8, DI
	DECQ         CX
	JNZ          row
	VZEROUPPER
	RET
