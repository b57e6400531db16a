package secagg

import (
	"fmt"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg/graph"
	"github.com/fedsim/fedsim/secagg/shamir"
)

// Shares are most of what an aggregator holds: each client deals a piece to each neighbour, and later reveals a piece
// of each neighbour. In a large federation they wait in a Spool, outside memory. Messages that consist of shares or of
// keys are then made when they are sent ([protocol.Whole]).

// Spool keeps pieces of one size, each under its number. Its methods may be called by several goroutines at once.
type Spool interface {
	// Put keeps pieces under the numbers from first on. They stand one behind the other.
	Put(first int64, pieces []byte) error
	// Get returns a piece exactly as it was put, or an error. After Drop it returns an error that is fs.ErrClosed.
	Get(number int64) ([]byte, error)
	// Drop forgets all pieces. It may be called again.
	Drop()
}

// SharesInMemory is the usual number of bytes of a round's shares above which an aggregator has them wait in a spool.
const SharesInMemory = 256 << 20

// OpenSpool opens a spool for so many pieces of a size. It keeps room for all of them, or returns an error.
type OpenSpool func(pieces int64, size int) (Spool, error)

// SpoolTo has shares wait in spools if the shares of a round take more than so many bytes. It is called before the first
// message. In active mode shares stay in memory: there are at most graph.CompleteUpTo clients.
func (a *Aggregator) SpoolTo(above int64, open OpenSpool) { a.above, a.openSpool = above, open }

// SpoolError is returned when a spool fails. It is no fault of a client: the round ends without a sum.
type SpoolError struct{ Err error }

func (e *SpoolError) Error() string { return fmt.Sprintf("secagg: shares that wait: %v", e.Err) }

// Unwrap returns the spool's error.
func (e *SpoolError) Unwrap() error { return e.Err }

// WaitingShares holds the bytes of all shares of a round: the dealt and the revealed shares, and the files of both.
type WaitingShares struct{ Dealt, Revealed, Spooled int64 }

// SharedBytes returns the bytes of shares of a round with so many clients and neighbours of each. replaces says that
// noise is replaced.
func SharedBytes(mode graph.Mode, replaces bool, clients, degree int) WaitingShares {
	n := layersOf(protocol.Setup{Replaces: replaces})
	edges := int64(clients) * int64(degree)
	out := WaitingShares{Dealt: edges * int64(dealtSize(mode, n)), Revealed: edges * int64(n) * shamir.Size}
	out.Spooled = out.Dealt + out.Revealed + edges*int64(1+n)*sealOverhead
	return out
}

// sealOverhead is the number of bytes by which a spool on disk may lengthen each piece, to tell damage.
const sealOverhead = 16

// shelf has a piece for each client and each of its neighbours, in memory or in a spool.
type shelf struct {
	graph *graph.Graph
	size  int
	kept  [][]byte // by place: the client's pieces, by graph.Slot; unused with a spool
	spool Spool    // nil: in memory
}

// put keeps a client's pieces, which stand in the order of graph.Slot.
func (s *shelf) put(place int, pieces []byte) error {
	if s.spool == nil {
		s.kept[place] = pieces
		return nil
	}
	if err := s.spool.Put(int64(s.graph.Position(place))*int64(s.graph.Degree()), pieces); err != nil {
		return &SpoolError{err}
	}
	return nil
}

// get returns the piece that a client put for a neighbour.
func (s *shelf) get(place, peer int) ([]byte, error) {
	slot := s.graph.Slot(place, peer)
	if s.spool == nil {
		return s.kept[place][slot*s.size:][:s.size:s.size], nil
	}
	b, err := s.spool.Get(int64(s.graph.Position(place))*int64(s.graph.Degree()) + int64(slot))
	if err != nil {
		return nil, &SpoolError{err}
	}
	return b, nil
}

// drop forgets all pieces.
func (s *shelf) drop() {
	s.kept = nil
	if s.spool != nil {
		s.spool.Drop()
	}
}

// shelve makes the shelves of a round, once the graph is known.
func (a *Aggregator) shelve() error {
	n, mode := len(a.roster.members), a.params.Mode
	shares := SharedBytes(mode, a.setup.Replaces, n, a.graph.Degree())
	a.spooled = a.openSpool != nil && mode == graph.SemiHonest && shares.Dealt+shares.Revealed > a.above
	var err error
	if a.dealt, err = a.newShelf(dealtSize(mode, layersOf(a.setup))); err != nil {
		return err
	}
	for l := range layersOf(a.setup) {
		a.answers[l] = protocol.NewBitmap(n)
		if a.revealed[l], err = a.newShelf(shamir.Size); err != nil {
			a.Drop()
			return err
		}
	}
	return nil
}

func (a *Aggregator) newShelf(size int) (*shelf, error) {
	s := &shelf{graph: a.graph, size: size}
	if !a.spooled {
		s.kept = make([][]byte, len(a.roster.members))
		return s, nil
	}
	var err error
	if s.spool, err = a.openSpool(int64(len(a.roster.members))*int64(a.graph.Degree()), size); err != nil {
		return nil, &SpoolError{err}
	}
	return s, nil
}

// Drop drops the spools of a round that is over or given up. It may be called beside Sum.
func (a *Aggregator) Drop() {
	for _, s := range append([]*shelf{a.dealt}, a.revealed[:]...) {
		if s != nil && s.spool != nil {
			s.spool.Drop()
		}
	}
}
