package files

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/ulikunitz/xz"
)

// mostDictionary limits the dictionary of an xz file, which unpacking keeps in memory. xz -9 has 64 MiB.
const mostDictionary = 128 << 20

// openXZ unpacks an xz file whose first block has a dictionary of at most mostDictionary bytes.
func openXZ(r io.Reader) (io.Reader, error) {
	const header, block = 12, 1024 // bytes of the header of a stream, and of the longest header of a block
	b := bufio.NewReaderSize(r, header+block)
	head, err := b.Peek(header + block)
	if len(head) <= header {
		return nil, err
	}
	if size := xzDictionary(head[header:]); size > mostDictionary {
		return nil, fmt.Errorf("its dictionary has %d MiB, and at most %d MiB are used; pack it again: xz -dc FILE | xz -9 > NEW.xz", size>>20, mostDictionary>>20)
	}
	return xz.NewReader(b)
}

// xzDictionary returns the size of the dictionary by the header of a block, as section 5.3.1 of the format of xz
// has it; 0 if there is none.
func xzDictionary(block []byte) uint64 {
	const flagPacked, flagUnpacked, lzma2 = 0x40, 0x80, 0x21
	if len(block) < 2 || block[0] == 0 {
		return 0
	}
	flags, rest := block[1], block[2:min(len(block), 4*(int(block[0])+1))]
	next := func() uint64 {
		v, n := binary.Uvarint(rest)
		rest = rest[max(n, 0):]
		return v
	}
	for _, flag := range []byte{flagPacked, flagUnpacked} {
		if flags&flag != 0 {
			next()
		}
	}
	for range flags&3 + 1 {
		id, size := next(), next()
		if size > uint64(len(rest)) {
			return 0
		}
		if id == lzma2 && size == 1 {
			bits := rest[0] & 0x3f
			return uint64(2|bits&1) << (bits/2 + 11)
		}
		rest = rest[size:]
	}
	return 0
}
