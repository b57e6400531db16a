package external

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/npy"
)

// protocolVersion is the version of the protocol, which algorithm/external/external.md describes.
const protocolVersion = 1

// mostHeader limits the header of a reply, in bytes.
const mostHeader = 1 << 20

// array is a frame: an array of a name. It is an NPY file on the wire.
type array struct {
	name  string
	shape []int
	float []float64 // or
	whole []int64   // of an array of whole numbers
}

func (a array) length() int {
	n := 1
	for _, d := range a.shape {
		n *= d
	}
	return n
}

// header returns what an NPY file of the array begins with: version 1.0, little endian.
func (a array) header() []byte {
	kind := "<f8"
	if a.whole != nil {
		kind = "<i8"
	}
	shape := "("
	for _, d := range a.shape {
		shape += fmt.Sprintf("%d, ", d)
	}
	head := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s), }", kind, shape)
	const before, step = 10, 64 // bytes before the header; what the beginning of the numbers is a multiple of
	head += strings.Repeat(" ", step-1-(before+len(head))%step) + "\n"
	b := binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(head)))
	return append(b, head...)
}

// write sends the array as an NPY file: its header, then its numbers.
func (a array) write(w io.Writer) error {
	_, err := w.Write(a.header())
	switch {
	case err != nil:
		return err
	case a.whole != nil:
		return binary.Write(w, binary.LittleEndian, a.whole)
	}
	return binary.Write(w, binary.LittleEndian, a.float)
}

// message is a request or a reply: a line of JSON, then its arrays.
type message struct {
	Version int     `json:"fedsim,omitempty"`
	Type    string  `json:"type"`
	Frames  []frame `json:"frames"`

	// Of a request.
	Round     uint64   `json:"round,omitempty"`
	Survivors int      `json:"survivors,omitempty"`
	Problem   *problem `json:"problem,omitempty"`
	arrays    []array

	// Of a reply.
	Name    string   `json:"name,omitempty"`
	Release *release `json:"release,omitempty"`
	Phases  []phase  `json:"phases,omitempty"` // in place of Release
	Error   string   `json:"error,omitempty"`
}

// frame tells the name of an array and the bytes of its file.
type frame struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// problem describes the data to the program, as far as they are public.
type problem struct {
	ItemIDs   []string `json:"item_ids"`
	RatingMin float64  `json:"rating_min"`
	RatingMax float64  `json:"rating_max"`
	Rounds    int      `json:"rounds"`
	Seed      uint64   `json:"seed"`

	Features []dataset.Category `json:"features,omitempty"`
}

// phase is a number of rounds with a release of their own. The last phase has the rounds that are left.
type phase struct {
	Name   string `json:"name"`
	Rounds int    `json:"rounds"`
	release
}

// release describes the vector of a user in a round, as the program declares it.
type release struct {
	Length  int     `json:"length"`
	L2      float64 `json:"l2"`
	L1      float64 `json:"l1"`
	LInf    float64 `json:"linf"`
	NonZero int     `json:"non_zero"`
	Scale   float64 `json:"scale"`
}

func (m message) write(w io.Writer) error {
	m.Frames = lists.Map(m.arrays, func(a array) frame { return frame{a.name, int64(len(a.header()) + 8*a.length())} })
	err := json.NewEncoder(w).Encode(m) // a line
	for _, a := range m.arrays {
		if err == nil {
			err = a.write(w)
		}
	}
	return err
}

var errProtocol = errors.New("its reply does not follow the protocol")

// read reads a reply, whose arrays may have so many bytes together. The header fits into the buffer.
func read(r *bufio.Reader, most int64) (message, error) {
	var m message
	head, err := r.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return m, fmt.Errorf("%w: its header has more than %d bytes", errProtocol, r.Size())
	case err != nil:
		return m, err
	}
	if err = json.Unmarshal(head, &m); err != nil {
		return m, fmt.Errorf("%w: its header is no JSON (%w): %.60q", errProtocol, err, head)
	}
	for _, f := range m.Frames {
		if most -= f.Bytes; f.Bytes < 0 || most < 0 {
			return m, fmt.Errorf("%w: its arrays are larger than any right answer", errProtocol)
		}
		a, err := npy.Read(r, f.Bytes)
		if errors.Is(err, npy.ErrFormat) { // otherwise the program ended
			err = fmt.Errorf("%w: the array %q: %w", errProtocol, f.Name, err)
		}
		if err != nil {
			return m, err
		}
		m.arrays = append(m.arrays, array{f.Name, a.Shape, a.Float, a.Whole})
	}
	return m, nil
}

func (m message) named(name string) (array, bool) {
	for _, a := range m.arrays {
		if a.name == name {
			return a, true
		}
	}
	return array{}, false
}

// blocks computes results of users in blocks, since a call of the program costs more than a user. A block is computed once,
// by the first caller that needs it, and the last few are kept.
type blocks[T any] struct {
	size int // users
	most int // blocks that are kept
	mu   sync.Mutex
	kept []*block[T]
}

// block holds the results of the users of a block.
type block[T any] struct {
	of     job
	number int
	once   sync.Once
	list   []T
	err    error
}

// job identifies a computation by its model, its round and what is expected.
type job struct {
	model    *sent
	round    uint64
	expected *expectation
}

// one returns the result of a user. compute makes the results of the users from one up to another.
func (b *blocks[T]) one(of job, user, users int, compute func(from, to int) ([]T, error)) (result T, err error) {
	number := user / b.size
	found := b.find(of, number)
	found.once.Do(func() { found.list, found.err = compute(number*b.size, min((number+1)*b.size, users)) })
	if found.err != nil {
		return result, found.err
	}
	return found.list[user-number*b.size], nil
}

func (b *blocks[T]) find(of job, number int) *block[T] {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, x := range b.kept {
		if x.of == of && x.number == number {
			return x
		}
	}
	x := &block[T]{of: of, number: number}
	b.kept = append(b.kept, x)
	b.kept = b.kept[max(0, len(b.kept)-max(b.most, 1)):]
	return x
}

// blockBytes limits the numbers of a block, in bytes, and mostUsers the users.
const (
	blockBytes = 8 << 20
	mostUsers  = 256
	fewBlocks  = 4 // are kept at least: the workers of a run are within a few blocks of each other
)

// newBlocks returns blocks for results of so many numbers a user. At most so many bytes are kept, or else a few blocks.
func newBlocks[T any](numbers, most int) *blocks[T] {
	size := min(max(blockBytes/(8*max(numbers, 1)), 1), mostUsers)
	return &blocks[T]{size: size, most: max(most/(8*size*max(numbers, 1)), fewBlocks)}
}
