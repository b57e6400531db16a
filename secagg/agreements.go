package secagg

import (
	"bytes"
	"crypto/ecdh"
	"encoding/binary"
	"sync"

	"github.com/fedsim/fedsim/protocol"
)

// Agreements has parties of one process compute what two keys have in common once instead
// of twice, which is most of what a simulated real sum takes: the first of a pair computes
// it and leaves it here, the other takes it away. What was left for a client that is lost
// is forgotten two iterations later.
//
// It is for simulations, whose process holds the keys of both anyway. In a deployment each
// party must be without one. It is safe for concurrent use.
type Agreements struct {
	mu     sync.Mutex
	tables map[uint64]*agreementTable // of the present iteration, and of those beside it
}

// agreementShards keep workers from waiting for each other.
const agreementShards = 64

// agreementTable is what is left in an iteration, by the two public keys in order.
type agreementTable [agreementShards]agreementShard

type agreementShard struct {
	mu   sync.Mutex
	left map[[2]protocol.Key][]byte
}

// take is what the other of a pair left, which is then gone; nil if nothing is there.
func (s *agreementShard) take(pair [2]protocol.Key) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	secret := s.left[pair]
	delete(s.left, pair)
	return secret
}

// leave leaves a secret to the other of a pair, unless both computed it at once: then
// nobody needs it any more.
func (s *agreementShard) leave(pair [2]protocol.Key, secret []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, both := s.left[pair]; both {
		delete(s.left, pair)
		return
	}
	if s.left == nil {
		s.left = make(map[[2]protocol.Key][]byte)
	}
	s.left[pair] = secret
}

// in is the table of an iteration. Iterations are set up at most one ahead.
func (a *Agreements) in(iteration uint64) *agreementTable {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.tables[iteration]
	if t == nil {
		t = new(agreementTable)
		if a.tables == nil {
			a.tables = make(map[uint64]*agreementTable)
		}
		for old := range a.tables {
			if old+1 < iteration {
				delete(a.tables, old)
			}
		}
		a.tables[iteration] = t
	}
	return t
}

// common is as the function of that name; own must be the key behind public. Nil computes
// it every time.
func (a *Agreements) common(iteration uint64, own *ecdh.PrivateKey, public, peer protocol.Key) ([]byte, error) {
	if a == nil {
		return common(own, peer)
	}
	pair := [2]protocol.Key{public, peer}
	if bytes.Compare(public[:], peer[:]) > 0 {
		pair = [2]protocol.Key{peer, public}
	}
	shard := &a.in(iteration)[binary.LittleEndian.Uint64(pair[0][:])%agreementShards]
	if secret := shard.take(pair); secret != nil {
		return secret, nil
	}
	secret, err := common(own, peer)
	if err == nil {
		shard.leave(pair, secret)
	}
	return secret, err
}
