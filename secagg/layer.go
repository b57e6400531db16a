package secagg

import "github.com/fedsim/fedsim/protocol"

// layer is one of the sums that a round is: that of the inputs or, where noise
// is replaced, that of what the noise changes by, both over the same clients and the
// same graph. Each has secrets, shares and masks of its own, and every transcript
// says whose they are. For a client may be in the first sum and fall silent before
// the second: neighbours then reveal its seed of the one and its key of the other,
// and if either were good for the other's masks, that would open its input.
type layer uint8

const (
	ofInputs layer = iota
	ofChanges
	layers // how many there are at the most
)

// layersOf is how many sums a round is.
func layersOf(s protocol.Setup) layer {
	if s.Replaces {
		return layers
	}
	return 1
}

// tag is a word of a transcript for this layer alone.
func (l layer) tag(word string) string {
	if l == ofChanges {
		return "change-" + word
	}
	return word
}

// key is the mask key among a client's keys, which must have one.
func (l layer) key(k *protocol.Keys) protocol.Key {
	if l == ofChanges {
		return *k.Change
	}
	return k.Mask
}

// seedHash is the hash, among those that a client published, of its seed.
func (l layer) seedHash(m *protocol.Shares) protocol.Hash {
	if l == ofChanges {
		return *m.ChangeHash
	}
	return m.SeedHash
}
