//go:build amd64 && !purego

#include "textflag.h"

DATA magnitude<>+0(SB)/8, $0x7fffffffffffffff
GLOBL magnitude<>(SB), RODATA|NOPTR, $8

// func roundFours(dst *int32, factors *float64, count int, values *float64, scale float64, sums *[2][4]float64)
TEXT ·roundFours(SB), NOSPLIT, $0-48
	MOVQ         dst+0(FP), DI
	MOVQ         factors+8(FP), SI
	MOVQ         count+16(FP), CX
	MOVQ         values+24(FP), AX
	MOVQ         sums+40(FP), DX
	VMOVUPD      (AX), Y0
	VBROADCASTSD scale+32(FP), Y1
	VBROADCASTSD magnitude<>(SB), Y4
	VXORPD       Y2, Y2, Y2
	VXORPD       Y3, Y3, Y3

row:
	VBROADCASTSD (SI), Y5
	VMULPD       Y0, Y5, Y5
	VMULPD       Y1, Y5, Y5
	VROUNDPD     $8, Y5, Y5
	VCVTPD2DQY   Y5, X6
	VMOVDQU      X6, (DI)
	VANDPD       Y4, Y5, Y7
	VADDPD       Y7, Y3, Y3
	VMULPD       Y5, Y5, Y5
	VADDPD       Y5, Y2, Y2
	ADDQ         $8, SI
	ADDQ         $16, DI
	DECQ         CX
	JNZ          row
	VMOVUPD      Y2, (DX)
	VMOVUPD      Y3, 32(DX)
	VZEROUPPER
	RET
