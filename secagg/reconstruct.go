package secagg

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/fedsim/fedsim/internal/secagg/mask"
	"github.com/fedsim/fedsim/internal/secagg/shamir"
	"github.com/fedsim/fedsim/protocol"
)

// Sum reconstructs the secrets, removes the remaining masks and returns, per release, the integers summed over the clients whose
// masked input arrived. It returns a sum once only (ErrFinished). A *protocol.Unrecoverable says which client's secret is missing.
func (a *Aggregator) Sum(run protocol.Runner) ([][]int64, error) {
	if a.finished {
		return nil, ErrFinished
	}
	if a.stage != protocol.Stages {
		return nil, ErrOrder
	}
	a.finished = true
	for l := range layersOf(a.setup) {
		if err := a.open(l, run); err != nil {
			return nil, err
		}
	}
	for _, s := range a.revealed[:layersOf(a.setup)] {
		s.drop()
	}
	if err := a.opened(run); err != nil {
		return nil, err
	}
	out := integers(a.sums)
	a.sums, a.verified = nil, nil
	return out, nil
}

// restoredAtOnce is the number of clients whose secrets are restored at a time: it bounds the memory of secrets and
// masks. A complete graph has fewer clients.
const restoredAtOnce = 4096

// open takes the masks of a layer off the sums that have them.
func (a *Aggregator) open(l layer, run protocol.Runner) error {
	if err := a.takeOff(l, a.onesided(), run); err != nil {
		return err
	}
	for first := 0; first < len(a.roster.members); first += restoredAtOnce {
		secrets, err := a.restore(l, first, min(first+restoredAtOnce, len(a.roster.members)), run)
		if err != nil {
			return err
		}
		masks, err := a.remaining(l, secrets, run)
		if err != nil {
			return err
		}
		if err = a.takeOff(l, masks, run); err != nil {
			return err
		}
	}
	return nil
}

// takeOff takes masks of a layer off the sums that have them.
func (a *Aggregator) takeOff(l layer, masks []masking, run protocol.Runner) error {
	for i, r := range a.plan.Releases {
		if l == ofChanges && r.Noise.Kind != protocol.TwoRound {
			continue
		}
		if err := a.unmask(a.sums[i], r, a.contexts[l], masks, run); err != nil {
			return err
		}
	}
	if a.verified == nil {
		return nil
	}
	return addScalarMasks(a.verified.blindings, a.contexts[l], masks)
}

// masked returns the clients between whom there are masks of a layer, and among them the clients whose vectors are in its sum.
func (a *Aggregator) masked(l layer) (among, in protocol.Bitmap) {
	if l == ofChanges {
		return a.u1, a.u2
	}
	return a.arrived, a.u1
}

// restored is the secret of a client of which enough shares arrived.
type restored struct {
	at     int // place
	holder []int
	seed   [32]byte   // of a client that is in the sum
	key    privateKey // of a client that is not in the sum
}

// restore reconstructs secrets of a layer, of the clients from one place to another: the seed of each client that is in
// the sum, and the mask key of each other client with masks.
func (a *Aggregator) restore(l layer, first, end int, run protocol.Runner) ([]restored, error) {
	t := a.roster.choice.Threshold
	among, _ := a.masked(l)
	var out []restored
	for i := first; i < end; i++ {
		if !among.Has(i) || l == ofInputs && !a.needed(i) {
			continue
		}
		holders := slices.DeleteFunc(a.graph.Neighbours(i), func(j int) bool { return !a.answers[l].Has(j) || !a.holds(j, i) })
		if len(holders) < t {
			return nil, a.unrecoverable(i, len(holders), false)
		}
		out = append(out, restored{at: i, holder: holders[:t]})
	}
	var weights weightsCache
	return out, each(run, len(out), func(i int) error { return a.combine(l, &out[i], &weights) })
}

// combine restores one secret, and holds it against what was published of it. In active mode it fits: the points of all shares were
// checked when they were dealt, and each share when it was revealed.
func (a *Aggregator) combine(l layer, r *restored, cache *weightsCache) error {
	id := a.roster.members[r.at].Client
	holders, shares := a.roster.indices(r.holder), make([]shamir.Share, len(r.holder))
	for k, j := range r.holder {
		share, err := a.revealed[l].get(j, r.at)
		if err != nil {
			return err
		}
		if shares[k], err = shamir.ParseShare(holders[k], share); err != nil {
			return err
		}
	}
	lagrange, err := cache.get(holders)
	if err != nil {
		return err
	}
	secret, err := lagrange.Combine(shares)
	if err != nil {
		return err
	}
	good := false
	if _, in := a.masked(l); in.Has(r.at) {
		var hash protocol.Hash
		r.seed, hash = selfSeed(l, secret, a.setup, id)
		good = hash == a.hashes[l][r.at]
	} else {
		r.key = maskKey(l, secret, a.setup, id, a.params.Mode)
		good = r.key.public == l.key(&a.roster.members[r.at].Keys)
	}
	if good || a.Confirms() {
		return nil
	}
	return a.unrecoverable(r.at, len(r.holder), false)
}

// weightsCache computes the weights of a set of holders once: on a complete graph nearly all secrets have the same.
type weightsCache struct {
	sets sync.Map // functions that return the weights, by the holders
}

func (c *weightsCache) get(holders []shamir.Index) (*shamir.Lagrange, error) {
	key := make([]byte, 0, 4*len(holders))
	for _, h := range holders {
		key = binary.BigEndian.AppendUint32(key, uint32(h))
	}
	weights, known := c.sets.Load(string(key))
	if !known {
		weights, _ = c.sets.LoadOrStore(string(key), sync.OnceValues(func() (*shamir.Lagrange, error) { return shamir.NewLagrange(1, holders) }))
	}
	return weights.(func() (*shamir.Lagrange, error))()
}

// remaining returns the masks of a layer that restored clients leave in the sum. A client in the sum leaves its own mask. A client
// outside the sum leaves the masks that it has in common with its neighbours in the sum.
func (a *Aggregator) remaining(l layer, secrets []restored, run protocol.Runner) ([]masking, error) {
	_, in := a.masked(l)
	out := make([][]masking, len(secrets))
	err := each(run, len(secrets), func(i int) error {
		r := &secrets[i]
		if in.Has(r.at) {
			out[i] = []masking{{secret: r.seed, kind: mask.Self, sub: true}}
			return nil
		}
		with := slices.DeleteFunc(a.graph.Neighbours(r.at), func(j int) bool { return !in.Has(j) || !a.holds(j, r.at) })
		shared, failed := a.roster.pairSecrets(l, r.key, r.at, with, a.known, protocol.Workers(1))
		for k, j := range with {
			// The survivor subtracted the mask if the peer, the lost one, stands before it.
			out[i] = append(out[i], masking{secret: shared[k], kind: mask.Pair, sub: r.at > j})
		}
		return cmp.Or(failed...)
	})
	return slices.Concat(out...), err
}

// OpenMasks is the number of masks that a worker expands at a time when it removes them from a sum.
// It bounds the memory of keystreams. A large federation has hundreds of thousands of them.
const OpenMasks = 64

// unmask takes masks off a sum. They are divided into at most 16 groups, each for one worker with a vector of its own.
func (a *Aggregator) unmask(v *mask.Vector, r protocol.Release, ctx mask.Context, masks []masking, run protocol.Runner) error {
	groups := min(16, (len(masks)+OpenMasks-1)/OpenMasks)
	var mu sync.Mutex // of v
	return each(run, groups, func(g int) error {
		part, err := mask.NewVector(v.Width(), v.Len())
		for batch := range slices.Chunk(masks[g*len(masks)/groups:(g+1)*len(masks)/groups], OpenMasks) {
			if err == nil {
				err = withTerms(r, ctx, batch, func(terms []mask.Term) error { return mask.AddAll(part, terms) })
			}
		}
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		return v.Add(part) // in any order: the ring's addition commutes
	})
}

// each runs f(0) to f(n-1), and returns the first error in this order.
func each(run protocol.Runner, n int, f func(i int) error) error {
	errs := make([]error, n)
	run.Each(n, func(i int) { errs[i] = f(i) })
	return cmp.Or(errs...)
}

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
// message. In active mode shares stay in memory: there are at most CompleteUpTo clients.
func (a *Aggregator) SpoolTo(above int64, open OpenSpool) { a.above, a.openSpool = above, open }

// ErrSpool is wrapped by the error of a spool that fails. It is no fault of a client: the round ends without a sum.
var ErrSpool = errors.New("secagg: shares that wait")

// WaitingShares holds the bytes of all shares of a round: the dealt and the revealed shares, and the files of both.
type WaitingShares struct{ Dealt, Revealed, Spooled int64 }

// SharedBytes returns the bytes of shares of a round with so many clients and neighbours of each. replaces says that
// noise is replaced. A spool on disk may lengthen each piece by 16 bytes, to tell damage.
func SharedBytes(mode Mode, replaces bool, clients, degree int) WaitingShares {
	n := layersOf(protocol.Setup{Replaces: replaces})
	edges := int64(clients) * int64(degree)
	out := WaitingShares{Dealt: edges * int64(dealtSize(mode, n)), Revealed: edges * int64(n) * shamir.Size}
	out.Spooled = out.Dealt + out.Revealed + edges*int64(1+n)*16
	return out
}

// shelf has a piece for each client and each of its neighbours, in memory or in a spool.
type shelf struct {
	graph *Graph
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
		return fmt.Errorf("%w: %w", ErrSpool, err)
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
		return nil, fmt.Errorf("%w: %w", ErrSpool, err)
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
	a.spooled = a.openSpool != nil && mode == SemiHonest && shares.Dealt+shares.Revealed > a.above
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
		return nil, fmt.Errorf("%w: %w", ErrSpool, err)
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
