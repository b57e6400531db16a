// Package store keeps the durable state of a deployment's parties on disk.
//
// A [Log] is an append-only list of entries; an append is durable before it returns. [OpenLog] is a file, [NewMemoryLog] is for
// tests. Two things are built on it: a client's [Ledger], which must never forget what was spent, and admission.Registry. The
// server's state is a file that is replaced as a whole ([SaveCheckpoint]), with the previous one kept beside it.
//
// A log is created once ([CreateLog]) and only opened from then on. Opening never creates one: a missing ledger is an error, since
// an empty one in its place would give the budget back. A log cannot detect that the whole file was replaced by an older copy, so
// never restore one from a backup. Nor can it detect that a disk lost the very last write after reporting it as done.
package store

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/version"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// lockWait is the time that an opener waits for a process that is about to end.
const lockWait = 200 * time.Millisecond

// fileLog is a Log in a file: two pages with a head each, and then the entries, each behind its length in 4 bytes, big endian.
// An append writes entries behind the last one and, once they are on disk, a head over the older of the two. Killed before that,
// it leaves bytes that no head counts. The heads are of consecutive numbers: a disk that lost the newer one is noticed.
type fileLog struct {
	path string
	file *os.File // nil: closed
	head logHead
}

// logHead says what a log is, and how far it goes.
type logHead struct {
	Number uint64 `json:"number"` // one more with each append
	Format string `json:"format"`
	Owner  []byte `json:"owner"`
	Count  uint64 `json:"count"` // of entries
	End    int64  `json:"end"`   // of the last entry in the file
	Chain  []byte `json:"chain"`
	Writer string `json:"writer"` // the version that wrote last, for people
}

// headSize is the room for a head, which a disk writes as a whole.
const headSize = 4096

// page is a head as it is written: JSON, its SHA-256 in hex, and zeros.
func (h *logHead) page() []byte {
	text, err := json.Marshal(h)
	if err != nil || len(text)+2*sha256.Size+2 > headSize {
		panic(fmt.Sprintf("store: a head of %d bytes: %v", len(text), err)) // its texts are this program's own, and short
	}
	sum := sha256.Sum256(text)
	text = append(hex.AppendEncode(append(text, ' '), sum[:]), '\n')
	return append(text, make([]byte, headSize-len(text))...)
}

func parseHead(page []byte) (h logHead, err error) {
	line, _, _ := bytes.Cut(page, []byte("\n"))
	at := bytes.LastIndexByte(line, ' ')
	if at < 0 {
		return h, errors.New("a head is missing")
	}
	if sum := sha256.Sum256(line[:at]); hex.EncodeToString(sum[:]) != string(line[at+1:]) {
		return h, errors.New("the checksum of a head is wrong")
	}
	return h, json.Unmarshal(line[:at], &h)
}

func (h *logHead) kind() Kind {
	k := Kind{Format: h.Format}
	copy(k.Owner[:], h.Owner)
	return k
}

// CreateLog makes the file of an empty log, which only the present user can read. An existing file is not changed (fs.ErrExist). If
// the process is killed, the file exists completely or not at all; a hidden file may be left behind.
func CreateLog(path string, k Kind) error {
	c := k.chain()
	h := logHead{Format: k.Format, Owner: k.Owner[:], End: 2 * headSize, Chain: c[:], Writer: version.Get().String()}
	first := h.page()
	h.Number = 1
	if err := atomicfile.Create(path, append(first, h.page()...), 0o600); err != nil {
		return fmt.Errorf("store: making the log %s: %w", path, err)
	}
	return nil
}

// OpenLog opens an existing log, and locks it against other processes until it is closed (ErrLocked). Every entry is read and
// checked: a file with other contents than were written is refused (ErrCorrupt) and left as it is. A log of another kind or owner
// is refused with ErrFormat or ErrOwner, a missing one with fs.ErrNotExist.
func OpenLog(path string, k Kind) (Log, error) { return openLog(path, k, os.O_RDWR) }

func openLog(path string, k Kind, flag int) (*fileLog, error) {
	f, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return nil, fmt.Errorf("store: opening the log %s: %w", path, err)
	}
	l := &fileLog{path: path, file: f}
	for until := time.Now().Add(lockWait); ; time.Sleep(lockWait / 20) {
		if err = atomicfile.Lock(f, flag == os.O_RDONLY, false); err == nil || time.Now().After(until) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, ErrLocked), f.Close())
	}
	if err = l.load(k); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), l.Close())
	}
	return l, nil
}

// load reads both heads, and the whole log against the newer one.
func (l *fileLog) load(k Kind) error {
	pages := make([]byte, 2*headSize)
	if _, err := l.file.ReadAt(pages, 0); errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: it ends within its heads", ErrCorrupt)
	} else if err != nil {
		return err
	}
	before, err := parseHead(pages[:headSize])
	newer, wrong := parseHead(pages[headSize:])
	if err = errors.Join(err, wrong); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if before.Number > newer.Number {
		before, newer = newer, before
	}
	if before.Number+1 != newer.Number {
		return fmt.Errorf("%w: its heads are of appends %d and %d, with none between them", ErrCorrupt, before.Number, newer.Number)
	}
	l.head = newer
	own := l.head.kind()
	c := own.chain()
	if err = l.Entries(func(entry []byte) error {
		c = c.add(entry)
		return nil
	}); err != nil {
		return err
	}
	switch {
	case !bytes.Equal(c[:], l.head.Chain):
		return fmt.Errorf("%w: its %d entries are not the last that were written", ErrCorrupt, l.head.Count)
	case own.Format != k.Format:
		return Foreign(l, fmt.Errorf("its format is %.40q, and %q is needed", own.Format, k.Format))
	case own.Owner != k.Owner:
		return fmt.Errorf("%w: %x, and this is %x", ErrOwner, own.Owner, k.Owner)
	}
	return nil
}

func (l *fileLog) writer() string { return l.head.Writer }

// Append adds entries and the head that counts them. Without entries it writes a head, which shows whether the disk takes what is written.
func (l *fileLog) Append(entries ...[]byte) error {
	if l.file == nil {
		return fmt.Errorf("%s: %w", l.path, ErrClosed)
	}
	next, c := l.head, chain(l.head.Chain)
	next.Number, next.Count, next.Writer = next.Number+1, next.Count+uint64(len(entries)), version.Get().String()
	var text []byte
	for _, e := range entries {
		c = c.add(e)
		text = append(binary.BigEndian.AppendUint32(text, uint32(len(e))), e...)
	}
	next.Chain, next.End = c[:], next.End+int64(len(text))
	err := l.write(text, l.head.End)
	if err == nil {
		err = l.write(next.page(), int64(next.Number%2)*headSize)
	}
	if err != nil {
		return fmt.Errorf("store: writing to the log %s, which is now closed: %w", l.path, errors.Join(err, l.Close()))
	}
	l.head = next
	return nil
}

// write writes durably.
func (l *fileLog) write(b []byte, at int64) error {
	if len(b) == 0 {
		return nil
	}
	if _, err := l.file.WriteAt(b, at); err != nil {
		return err
	}
	return l.file.Sync()
}

// Entries reads them one by one.
func (l *fileLog) Entries(f func(entry []byte) error) error {
	if l.file == nil {
		return fmt.Errorf("%s: %w", l.path, ErrClosed)
	}
	r := bufio.NewReader(io.NewSectionReader(l.file, 2*headSize, l.head.End-2*headSize))
	var entry bytes.Buffer
	for n := uint64(1); n <= l.head.Count; n++ {
		entry.Reset()
		var size [4]byte
		_, err := io.ReadFull(r, size[:])
		if err == nil {
			_, err = io.CopyN(&entry, r, int64(binary.BigEndian.Uint32(size[:])))
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("%w: entry %d of %d is missing", ErrCorrupt, n, l.head.Count)
		}
		if err == nil {
			err = f(entry.Bytes())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Close lets go of the file.
func (l *fileLog) Close() error {
	f := l.file
	if l.file = nil; f == nil {
		return nil
	}
	return f.Close()
}

// Why a file is not opened or not written to. Errors wrap one of these and say which file it is about.
var (
	// ErrLocked: another process has the file open.
	ErrLocked = errors.New("store: another process has the file open; stop that one first")
	// ErrOwner: the file belongs to another party.
	ErrOwner = errors.New("store: the file belongs to another party")
	// ErrFormat: the file is of another kind, or another version of this program has written it. A start again does not
	// change that.
	ErrFormat = admission.Lasting(errors.New("store: the file is of another kind, or another version of this program has written it"))
	// ErrCorrupt: the file does not hold what was written to it.
	ErrCorrupt = errors.New("store: the file is damaged, and was left as it is; keep a copy of it, and check the disk")
	// ErrShared: another user can write to the folder.
	ErrShared = errors.New("store: others can write to the folder of the state")
	// ErrClosed: the log was closed, by Close or after a write that failed.
	ErrClosed = errors.New("store: the log is closed")
)

// Foreign returns the error for entries that this version does not understand, of a log whose chain of hashes holds. It
// names the version that has written the log last.
func Foreign(log Log, err error) error {
	by := "by a version that left no name"
	if x, ok := log.(interface{ writer() string }); ok && x.writer() != "" {
		by = fmt.Sprintf("by %.200q", x.writer())
	}
	return fmt.Errorf("%w: %w. It is whole, was written %s, and this is %q. Use the version that wrote it, which continues from it: nothing is lost, and no party needs another identity",
		ErrFormat, err, by, version.Get())
}

// Log is a log in a file or in memory.
type Log = admission.Log

// Kind is the purpose of a log, and its owner. Owner is 32 bytes that identify a party or a federation: a public key, or a hash.
type Kind struct {
	Format string // with a version, like "fedsim-ledger-v1"
	Owner  [32]byte
}

// chain is the digest of a log so far: of its kind, and then with every entry. It stands in the log beside the entries, so that
// none can be changed, lost or put elsewhere by a fault of the disk without being noticed.
type chain [sha256.Size]byte

func (k Kind) chain() chain {
	return protocol.NewTranscript("fedsim/store/log/v1").Text(k.Format).Bytes(k.Owner[:]).Sum()
}

func (c chain) add(entry []byte) chain {
	return protocol.NewTranscript("fedsim/store/entry/v1").Bytes(c[:]).Bytes(entry).Sum()
}

// memoryLog is a Log that a crash takes along.
type memoryLog struct {
	by      string // see Foreign; of a copy of a file
	entries [][]byte
	closed  bool
}

// NewMemoryLog makes a Log without a file, for tests and simulations.
func NewMemoryLog() Log { return new(memoryLog) }

func (l *memoryLog) writer() string { return l.by }

func (l *memoryLog) Append(entries ...[]byte) error {
	if l.closed {
		return ErrClosed
	}
	l.entries = append(l.entries, lists.Map(entries, slices.Clone[[]byte])...)
	return nil
}

func (l *memoryLog) Entries(f func(entry []byte) error) error {
	if l.closed {
		return ErrClosed
	}
	for _, e := range l.entries {
		if err := f(slices.Clone(e)); err != nil {
			return err
		}
	}
	return nil
}

func (l *memoryLog) Close() error {
	l.closed = true
	return nil
}

// ReadLog copies an existing log into memory and changes nothing. It checks and refuses what OpenLog does. The file is locked
// against writers while it is copied, and several readers may copy it at once; a process that has it open is ErrLocked.
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

// WriteFile writes a file of a party's state that only the present user can read, in place of what is there: as a whole or not at
// all, and durable when it returns. A planted link at the path of the draft is not followed.
func WriteFile(path string, data []byte) error { return atomicfile.Write(path, data, 0o600) }

// WriteJSON is WriteFile of a value.
func WriteJSON(path string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return WriteFile(path, append(text, '\n'))
}

// MakeFolder makes the folder of a party's state, unless it is there. It refuses a folder that
// another user can write to: that user could exchange the keys and ledgers in it.
func MakeFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("store: making the folder of the state: %w", err)
	}
	return CheckFolder(dir)
}

// CheckFolder says what MakeFolder says of a folder that is there, and changes nothing.
func CheckFolder(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("store: the folder of the state: %w", err)
	}
	return CheckWritable(dir, info)
}
