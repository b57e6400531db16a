package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/fedsim/fedsim/node/admission"
)

// ReadLog copies an existing log into memory and changes nothing. It checks and refuses what OpenLog
// does. The file is locked against writers while it is copied, and several readers may copy it at once;
// a process that has it open is ErrLocked.
func ReadLog(path string, k Kind) (Log, error) {
	l, err := openLog(path, k, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	copied := &memoryLog{by: l.writer()}
	err = l.Entries(func(entry []byte) error { return copied.Append(entry) })
	if err = errors.Join(err, l.Close()); err != nil {
		return nil, err
	}
	return copied, nil
}

// ReadLedger reads the ledger of an identity as ReadLog does. Further records stay in memory.
func ReadLedger(path string, owner admission.PublicKey) (*Ledger, error) {
	log, err := ReadLog(path, ledgerKind(owner))
	if err != nil {
		return nil, err
	}
	return ledgerIn(log, path, owner)
}

// ReadRegistry reads the log of a federation's registry as ReadLog does.
func ReadRegistry(path string, f *admission.Federation) (Log, error) {
	return ReadLog(path, registryKind(f))
}

// ReadHeads reads the file of OpenHeads and changes nothing. Every signature is verified.
func ReadHeads(path string) (map[admission.PublicKey]Head, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	h := NewHeads()
	if err == nil {
		err = h.parse(text)
	}
	if err != nil {
		return nil, fmt.Errorf("%s, the heads of clients' ledgers: %w", path, err)
	}
	return h.heads, nil
}
