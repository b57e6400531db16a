package secagg

import "github.com/fedsim/fedsim/protocol"

// layer is one of the sums of a round: the sum of the inputs or, where noise is replaced, the sum
// of the changes of noise. Both are over the same clients and the same graph. Each has secrets,
// shares and masks of its own, and every transcript names its layer. The reason: a client may be in
// the first sum and fall silent before the second. Neighbours then reveal its seed of the first
// layer and its key of the second. If either were good for the other layer's masks, that would open
// its input.
type layer uint8

const (
	ofInputs layer = iota
	ofChanges
	layers // the largest number of layers
)

// layersOf returns the number of sums of a round.
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

// seedHash returns the hash of the layer's seed from the hashes that a client published.
func (l layer) seedHash(m *protocol.Shares) protocol.Hash {
	if l == ofChanges {
		return *m.ChangeHash
	}
	return m.SeedHash
}
