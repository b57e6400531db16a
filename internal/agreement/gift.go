package agreement

import (
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/protocol"
)

// Gift has the ratings that a user gives openly, signed by a key of the user's own. All parties of a session read it, and no ε covers
// it. A gift without ratings takes all others of its key back. The description of a session contains the gifts, and does not change.
type Gift struct {
	Federation string            `json:"federation"` // that it is for, by the hash of its operator's statement, in hex
	Key        ed25519.PublicKey `json:"key"`
	At         int64             `json:"at"` // in seconds since 1970
	Items      []string          `json:"items"`
	Values     []float32         `json:"values"`
	Signature  []byte            `json:"signature"`
}

// ErrGift is wrapped by the error for a gift that its user has not signed so.
var ErrGift = errors.New("no gift as a user has signed it")

// hash is the SHA-256 of a transcript of the domain "fedsim/agreement/gift/v1".
func (g *Gift) hash() []byte {
	t := protocol.NewTranscript("fedsim/agreement/gift/v1").Text(g.Federation).Bytes(g.Key).Uint(uint64(g.At)).Uint(uint64(len(g.Items)))
	for i, id := range g.Items {
		t.Text(id).Float(float64(g.Values[i]))
	}
	sum := t.Sum()
	return sum[:]
}

// Sign signs the gift.
func (g *Gift) Sign(key ed25519.PrivateKey) {
	g.Key = key.Public().(ed25519.PublicKey)
	g.Signature = ed25519.Sign(key, g.hash())
}

// Verify returns an error if the gift is not as its user signed it, or rates an item twice.
func (g *Gift) Verify() error {
	if len(g.Key) != ed25519.PublicKeySize || len(g.Items) != len(g.Values) || !ed25519.Verify(g.Key, g.hash(), g.Signature) {
		return fmt.Errorf("%w, by the key %x", ErrGift, []byte(g.Key))
	}
	return checkIDs("rated item", g.Items)
}

// checkGift refuses a gift of a key that others have, or with ratings off the scale.
func (f Facts) checkGift(g *Gift, others map[string]bool) error {
	name := string(g.Key)
	before := others[name]
	others[name] = true
	off := slices.IndexFunc(g.Values, func(v float32) bool { return !(float64(v) >= f.Min && float64(v) <= f.Max) })
	switch err := g.Verify(); {
	case err != nil:
		return err
	case len(g.Items) == 0:
		return fmt.Errorf("the gift by the key %x has no ratings: it takes a gift back", name)
	case g.Federation != f.Donors[0].Federation:
		return fmt.Errorf("the gifts by the keys %x and %x are for two federations", []byte(f.Donors[0].Key), name)
	case before:
		return fmt.Errorf("two gifts are by the key %x", name)
	case off >= 0:
		return fmt.Errorf("the gift by the key %x rates item %q with %v, outside of the scale of %v to %v", name, g.Items[off], g.Values[off], f.Min, f.Max)
	}
	return nil
}

// Raters returns the donors with their ratings of the catalogue, each in its order; nil without donors.
func (f Facts) Raters() *dataset.Raters {
	if len(f.Donors) == 0 {
		return nil
	}
	out, at := &dataset.Raters{}, dataset.Places(f.ItemIDs)
	for u, g := range f.Donors {
		out.IDs = append(out.IDs, hex.EncodeToString(g.Key))
		for i, id := range g.Items {
			if j, listed := at[id]; listed {
				out.User, out.Item, out.Value = append(out.User, int32(u)), append(out.Item, j), append(out.Value, g.Values[i])
			}
		}
	}
	out.Users, out.Items = len(f.Donors), len(f.ItemIDs)
	return out
}
