//go:build amd64 && !purego

#include "textflag.h"

// ROW_OF_EIGHT adds a number of x times eight numbers of y.
#define ROW_OF_EIGHT(i, lo, hi) \
	VBROADCASTSD (8*i)(SI), Y12 \
	VMULPD       Y12, Y8, Y13   \
	VMULPD       Y12, Y9, Y14   \
	VADDPD       Y13, lo, lo    \
	VADDPD       Y14, hi, hi

// func outerEight(sums, x, y *float64, step, count int)
TEXT ·outerEight(SB), NOSPLIT, $0-40
	MOVQ    sums+0(FP), DI
	MOVQ    x+8(FP), SI
	MOVQ    y+16(FP), DX
	MOVQ    step+24(FP), AX
	MOVQ    count+32(FP), CX
	SHLQ    $3, AX
	VMOVUPD 0(DI), Y0
	VMOVUPD 32(DI), Y1
	VMOVUPD 64(DI), Y2
	VMOVUPD 96(DI), Y3
	VMOVUPD 128(DI), Y4
	VMOVUPD 160(DI), Y5
	VMOVUPD 192(DI), Y6
	VMOVUPD 224(DI), Y7

row:
	VMOVUPD (DX), Y8
	VMOVUPD 32(DX), Y9
	ROW_OF_EIGHT(0, Y0, Y1)
	ROW_OF_EIGHT(1, Y2, Y3)
	ROW_OF_EIGHT(2, Y4, Y5)
	ROW_OF_EIGHT(3, Y6, Y7)
	ADDQ AX, SI
	ADDQ AX, DX
	DECQ CX
	JNZ  row

	VMOVUPD Y0, 0(DI)
	VMOVUPD Y1, 32(DI)
	VMOVUPD Y2, 64(DI)
	VMOVUPD Y3, 96(DI)
	VMOVUPD Y4, 128(DI)
	VMOVUPD Y5, 160(DI)
	VMOVUPD Y6, 192(DI)
	VMOVUPD Y7, 224(DI)
	VZEROUPPER
	RET

// ROW_OF_FOUR adds a number of x times four numbers of y.
#define ROW_OF_FOUR(i, to) \
	VBROADCASTSD (8*i)(SI), Y12 \
	VMULPD       Y12, Y8, Y13   \
	VADDPD       Y13, to, to

// func outerFour(sums, x, y *float64, step, count int)
TEXT ·outerFour(SB), NOSPLIT, $0-40
	MOVQ    sums+0(FP), DI
	MOVQ    x+8(FP), SI
	MOVQ    y+16(FP), DX
	MOVQ    step+24(FP), AX
	MOVQ    count+32(FP), CX
	SHLQ    $3, AX
	VMOVUPD 0(DI), Y0
	VMOVUPD 64(DI), Y2
	VMOVUPD 128(DI), Y4
	VMOVUPD 192(DI), Y6

row:
	VMOVUPD (DX), Y8
	ROW_OF_FOUR(0, Y0)
	ROW_OF_FOUR(1, Y2)
	ROW_OF_FOUR(2, Y4)
	ROW_OF_FOUR(3, Y6)
	ADDQ AX, SI
	ADDQ AX, DX
	DECQ CX
	JNZ  row

	VMOVUPD Y0, 0(DI)
	VMOVUPD Y2, 64(DI)
	VMOVUPD Y4, 128(DI)
	VMOVUPD Y6, 192(DI)
	VZEROUPPER
	RET
