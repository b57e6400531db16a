package secagg

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/protocol"
)

// partialView is a set of clients as a client is told of it: the members that the client knows.
// Where these are not all, it has also the number of all members and the hash that stands for the
// whole set.
type partialView struct {
	count  int
	known  protocol.Bitmap
	digest *protocol.Hash // nil where all members are known
}

// whole stands for the set in hashes. It includes the weight, since the hash tells a client nothing
// about the weight: masks cancel only among clients that are told the same weight.
func (t partialView) whole() []byte {
	if t.digest == nil {
		return t.known
	}
	h := protocol.NewTranscript("fedsim/secagg/told/v1").Uint(uint64(t.count)).Bytes(t.digest[:]).Sum()
	return h[:]
}

// unknown counts the clients of the set that the client does not know.
func (t partialView) unknown() int { return t.count - t.known.Count() }

// is reports whether two views tell the same.
func (t partialView) is(o partialView) bool {
	return t.count == o.count && bytes.Equal(t.known, o.known) && (t.digest == nil) == (o.digest == nil) && bytes.Equal(t.whole(), o.whole())
}

func (t partialView) clone() partialView {
	t.known = slices.Clone(t.known)
	if t.digest != nil {
		d := *t.digest
		t.digest = &d
	}
	return t
}

// fits says what is wrong with the form of a set of clients of the roster.
func (r *roster) fits(t partialView) error {
	n, known := r.known, t.known.Count()
	part := t.digest != nil
	switch {
	case !t.known.Fits(n) || part != r.parts() || !part && known != t.count:
		return fmt.Errorf("%w: %d of a roster of %d in %d bytes", ErrMalformed, t.count, n, len(t.known))
	case known > t.count || t.count-known > r.clients-n:
		return fmt.Errorf("%w: %d clients, of %d that are known and %d others", ErrMalformed, t.count, known, r.clients-n)
	}
	return nil
}

// told returns the view of a set for the client at a place: the clients that it knows and, where
// these are not all, the weight of the set and its hash.
func (a *Aggregator) told(set protocol.Bitmap, place int) partialView {
	if a.roster.ring == nil {
		return partialView{count: set.Count(), known: set}
	}
	t := a.wholly(set)
	places := a.roster.ring.part(place, a.roster.choice.Degree)
	t.known = protocol.NewBitmap(len(places))
	for i, j := range places {
		if set.Has(j) {
			t.known.Set(i)
		}
	}
	return t
}

// wholly returns the part of the view that is the same for every client, computed once for each
// set.
func (a *Aggregator) wholly(set protocol.Bitmap) partialView {
	if a.roster.ring == nil {
		return partialView{count: set.Count(), known: set}
	}
	if a.latest.digest == nil || !bytes.Equal(a.latest.known, set) {
		digest := protocol.Hash(protocol.NewTranscript("fedsim/secagg/set/v1").Uint(uint64(a.roster.clients)).Bytes(set).Sum())
		a.latest = partialView{count: set.Count(), known: slices.Clone(set), digest: &digest}
	}
	return partialView{count: a.latest.count, digest: a.latest.digest}
}
