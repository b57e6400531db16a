//go:build amd64 && !purego

#include "textflag.h"

// func addFours(sum *int64, blocks uint64, index *uint32, values *int32, count int) (done int)
TEXT ·addFours(SB), NOSPLIT, $0-48
	MOVQ sum+0(FP), DI
	MOVQ blocks+8(FP), R8
	MOVQ index+16(FP), DX
	MOVQ values+24(FP), SI
	MOVQ count+32(FP), CX
	XORQ BX, BX

block:
	MOVL      (DX)(BX*4), AX
	CMPQ      AX, R8
	JAE       done
	SHLQ      $5, AX
	VPMOVSXDQ (SI), Y0
	VPADDQ    (DI)(AX*1), Y0, Y0
	VMOVDQU   Y0, (DI)(AX*1)
	ADDQ      $16, SI
	INCQ      BX
	CMPQ      BX, CX
	JNE       block

done:
	VZEROUPPER
	MOVQ BX, done+40(FP)
	RET
