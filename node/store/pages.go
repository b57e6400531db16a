package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
)

// bbolt trusts the files that it opens. It uses whichever of the two meta pages is sound: if the
// newer page was damaged, the latest transaction and its spending are gone unnoticed. It follows a
// page that leads back to itself for ever, and frees pages that do not exist if a page claims to
// continue into them. So a file's structure is checked here before anything is read through it. The
// format, version 2, is as old as bbolt; integers are in the machine's own byte order.

// pages checks that every page of a database belongs to it exactly once.
type pages struct {
	f    *os.File
	meta metaPage
	used []bool // by page number
}

// metaPage holds the parts of the first two pages that are checked here. Behind a page's header
// they hold magic, version, page size and flags in 4 bytes each. The following have 8 bytes each:
// the root's page, its sequence, the free list's page, the number of pages, the transaction, and
// the FNV-1a of all that.
type metaPage struct {
	size, root, freeList, count, transaction uint64
}

func readMeta(f *os.File, offset uint64) (m metaPage, err error) {
	const size, sum = 64, 56
	var b [size]byte
	if _, err := f.ReadAt(b[:], int64(offset)+headerLen); err != nil {
		return m, err
	}
	h := fnv.New64a()
	h.Write(b[:sum]) //nolint:errcheck // a hash takes everything
	if native.Uint64(b[sum:]) != h.Sum64() {
		return m, fmt.Errorf("the checksum at byte %d is wrong", offset)
	}
	return metaPage{uint64(native.Uint32(b[8:])), native.Uint64(b[16:]), native.Uint64(b[32:]), native.Uint64(b[40:]), native.Uint64(b[48:])}, nil
}

// checkPages requires both meta pages to be sound and of consecutive transactions (a transaction
// that was cut off leaves them so). Every page must be free or in use, exactly once.
func checkPages(f *os.File) error {
	before, err := readMeta(f, 0)
	if err != nil {
		return err
	}
	meta, err := readMeta(f, before.size)
	if err != nil {
		return err
	}
	if before.transaction > meta.transaction {
		before, meta = meta, before
	}
	if before.transaction+1 != meta.transaction {
		return fmt.Errorf("it is of transactions %d and %d, with none between them", before.transaction, meta.transaction)
	}
	p := &pages{f: f, meta: meta, used: make([]bool, meta.count)}
	if err := errors.Join(p.use(0, 2), p.freeList()); err != nil {
		return err
	}
	if err := p.tree(meta.root); err != nil {
		return err
	}
	for id, used := range p.used {
		if !used {
			return fmt.Errorf("page %d is neither free nor in use", id)
		}
	}
	return nil
}

// use takes n pages, which nothing else may have.
func (p *pages) use(id, n uint64) error {
	for ; n > 0; id, n = id+1, n-1 {
		if id >= p.meta.count || p.used[id] {
			return fmt.Errorf("page %d of %d is missing or in use twice", id, p.meta.count)
		}
		p.used[id] = true
	}
	return nil
}

// The kinds of pages that make trees.
const branchPage, leafPage = 1, 2

// headerLen is the length of a page's header: its number in 8 bytes, its kind and
// the number of its elements in 2, and in 4 how many pages more belong to it. An
// element is as long.
const headerLen, elementLen = 16, 16

var native = binary.NativeEndian

// page takes a page together with its overflow pages, and returns all of it.
func (p *pages) page(id uint64) (kind uint16, b []byte, err error) {
	var h [headerLen]byte
	if id >= p.meta.count {
		return 0, nil, fmt.Errorf("there is no page %d of %d", id, p.meta.count)
	}
	if _, err = p.f.ReadAt(h[:], int64(id*p.meta.size)); err != nil {
		return 0, nil, fmt.Errorf("page %d of %d: %w", id, p.meta.count, err)
	}
	n := uint64(native.Uint32(h[12:])) + 1
	if native.Uint64(h[:]) != id {
		return 0, nil, fmt.Errorf("page %d says that it is another", id)
	}
	if err = p.use(id, n); err != nil {
		return 0, nil, err
	}
	b = make([]byte, n*p.meta.size)
	if _, err = p.f.ReadAt(b, int64(id*p.meta.size)); err != nil {
		return 0, nil, fmt.Errorf("page %d of %d: %w", id, p.meta.count, err)
	}
	return native.Uint16(h[8:]), b, nil
}

// freeList takes the free pages and the pages that list them. The numbers of free pages stand in 8
// bytes each. A log never has too many free pages for the count field.
func (p *pages) freeList() error {
	_, b, err := p.page(p.meta.freeList) // bbolt has read it, so it is one
	if err != nil {
		return err
	}
	n := int(native.Uint16(b[10:]))
	if headerLen+8*n > len(b) {
		return fmt.Errorf("page %d lists %d free pages and has no room for them", p.meta.freeList, n)
	}
	for i := range n {
		if err := p.use(native.Uint64(b[headerLen+8*i:]), 1); err != nil {
			return err
		}
	}
	return nil
}

// tree takes everything below a page. It ends, since no page is taken twice.
func (p *pages) tree(id uint64) error {
	kind, b, err := p.page(id)
	if err != nil {
		return err
	}
	return p.elements(id, kind, b)
}

// elements follows the elements of a page. A branch has the position and length of the key in 4
// bytes each, and the page below in 8. A leaf has flags, position and length of the key, and length
// of the value in 4 each. Positions count from the element's beginning.
func (p *pages) elements(id uint64, kind uint16, b []byte) error {
	n := int(native.Uint16(b[10:]))
	if kind != branchPage && kind != leafPage || headerLen+elementLen*n > len(b) {
		return fmt.Errorf("page %d is of kind %d with %d elements", id, kind, n)
	}
	for i := range n {
		at := headerLen + elementLen*i
		e := b[at:]
		if kind == branchPage {
			if position, key := uint64(native.Uint32(e)), uint64(native.Uint32(e[4:])); position+key > uint64(len(e)) {
				return fmt.Errorf("element %d of page %d lies outside of it", i, id)
			}
			if err := p.tree(native.Uint64(e[8:])); err != nil {
				return err
			}
			continue
		}
		start := uint64(native.Uint32(e[4:])) + uint64(native.Uint32(e[8:]))
		end := start + uint64(native.Uint32(e[12:]))
		if end > uint64(len(e)) {
			return fmt.Errorf("element %d of page %d lies outside of it", i, id)
		}
		const bucket = 1
		if native.Uint32(e)&bucket != 0 {
			if err := p.bucket(id, e[start:end]); err != nil {
				return err
			}
		}
	}
	return nil
}

// bucket follows a bucket: its page in 8 bytes and its sequence in 8, and where
// there is no page of its own, one in small behind them.
func (p *pages) bucket(id uint64, b []byte) error {
	const own = 16
	if len(b) < own {
		return fmt.Errorf("page %d has a bucket of %d bytes", id, len(b))
	}
	if root := native.Uint64(b); root != 0 {
		return p.tree(root)
	}
	if b = b[own:]; len(b) < headerLen || native.Uint16(b[8:]) != leafPage {
		return fmt.Errorf("page %d has a bucket that is no leaf", id)
	}
	return p.elements(id, leafPage, b)
}
