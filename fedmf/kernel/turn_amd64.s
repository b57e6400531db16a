//go:build amd64 && !purego

#include "textflag.h"

// The portable step of turn.go for a rank that is a multiple of four, on vectors of four numbers.
// Each sum is of the same parts in the same order.

// func turnVectors(ui, vj *float64, rank int, value, rate float64) (normU, normV float64)
TEXT ·turnVectors(SB), NOSPLIT, $0-56
	MOVQ   ui+0(FP), DI
	MOVQ   vj+8(FP), SI
	MOVQ   rank+16(FP), CX
	VXORPD Y0, Y0, Y0
	XORQ   BX, BX

product:
	VMOVUPD (DI)(BX*8), Y1
	VMULPD  (SI)(BX*8), Y1, Y1
	VADDPD  Y1, Y0, Y0
	ADDQ    $4, BX
	CMPQ    BX, CX
	JLT     product

	VEXTRACTF128 $1, Y0, X1
	VHADDPD      X1, X0, X0 // the sums of the first two parts and of the last two
	VUNPCKHPD    X0, X0, X1
	VADDSD       X1, X0, X0
	VMOVSD       value+24(FP), X2
	VSUBSD       X0, X2, X2
	VMULSD       rate+32(FP), X2, X2
	VMOVDDUP     X2, X2
	VINSERTF128  $1, X2, Y2, Y2 // the step
	VXORPD       Y3, Y3, Y3
	VXORPD       X9, X9, X9
	VXORPD       X10, X10, X10
	XORQ         BX, BX

step:
	VMOVUPD      (DI)(BX*8), Y4
	VMOVUPD      (SI)(BX*8), Y5
	VMULPD       Y2, Y5, Y6
	VADDPD       Y6, Y4, Y6
	VMAXPD       Y6, Y3, Y6
	VMULPD       Y2, Y4, Y7
	VADDPD       Y7, Y5, Y7
	VMAXPD       Y7, Y3, Y7
	VMOVUPD      Y6, (DI)(BX*8)
	VMOVUPD      Y7, (SI)(BX*8)
	VMULPD       Y6, Y6, Y6
	VMULPD       Y7, Y7, Y7
	VEXTRACTF128 $1, Y6, X11
	VEXTRACTF128 $1, Y7, X12
	VADDPD       X11, X6, X6
	VADDPD       X12, X7, X7
	VADDPD       X6, X9, X9
	VADDPD       X7, X10, X10
	ADDQ         $4, BX
	CMPQ         BX, CX
	JLT          step

	VUNPCKHPD X9, X9, X11
	VADDSD    X11, X9, X9
	VUNPCKHPD X10, X10, X12
	VADDSD    X12, X10, X10
	VMOVSD    X9, normU+40(FP)
	VMOVSD    X10, normV+48(FP)
	VZEROUPPER
	RET
