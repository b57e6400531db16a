package secagg

import (
	"crypto/ecdh"
	"sync"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg/internal/basepoint"
)

// Agreements lets parties of one process share their private keys. The secret that two of them have
// in common is then computed from both private keys. That takes a seventh of the time that one
// private and one public key take (package basepoint), and gives the same bytes. Otherwise this
// computation would be most of the cost of a simulated real sum. Keys of a round are forgotten two
// rounds later.
//
// It is for simulations, whose process holds the keys of both parties anyway. In a deployment each
// party must be without one. It is safe for concurrent use.
type Agreements struct {
	mu      sync.RWMutex
	session privateKeys            // channel keys
	tables  map[uint64]privateKeys // mask keys, of the present round and of those beside it
}

// privateKeys are found by their public halves.
type privateKeys map[protocol.Key]*basepoint.Key

// leaveChannel leaves the key of a session to the others.
func (a *Agreements) leaveChannel(key *ecdh.PrivateKey) error {
	return a.leave(key, func() privateKeys {
		if a.session == nil {
			a.session = make(privateKeys)
		}
		return a.session
	})
}

// leaveMask leaves the key of a round to the others. Rounds are set up at most one ahead.
func (a *Agreements) leaveMask(round uint64, key *ecdh.PrivateKey) error {
	return a.leave(key, func() privateKeys {
		if a.tables == nil {
			a.tables = make(map[uint64]privateKeys)
		}
		if a.tables[round] == nil {
			a.tables[round] = make(privateKeys)
			for old := range a.tables {
				if old+1 < round {
					delete(a.tables, old)
				}
			}
		}
		return a.tables[round]
	})
}

// leave adds a key to the keys that to names, under the lock; it does nothing if keys are not
// shared.
func (a *Agreements) leave(key *ecdh.PrivateKey, to func() privateKeys) error {
	if a == nil {
		return nil
	}
	k, err := basepoint.NewKey(key.Bytes())
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	to()[protocol.Key(key.PublicKey().Bytes())] = k
	return nil
}

// find are the private keys that were left behind public ones; nil where there is none.
func (a *Agreements) find(round uint64, public ...protocol.Key) []*basepoint.Key {
	out := make([]*basepoint.Key, len(public))
	a.mu.RLock()
	defer a.mu.RUnlock()
	masks := a.tables[round]
	for i, p := range public {
		if out[i] = masks[p]; out[i] == nil {
			out[i] = a.session[p]
		}
	}
	return out
}

// common returns the secrets that a key has in common with each of others. It returns an error for
// a key of low order, which has none. A nil Agreements computes from every party's public key.
func (a *Agreements) common(round uint64, own *ecdh.PrivateKey, peers []protocol.Key, run protocol.Runner) ([][32]byte, []error) {
	out, errs := make([][32]byte, len(peers)), make([]error, len(peers))
	if !a.products(round, own, peers, out) {
		run.Each(len(peers), func(i int) { out[i], errs[i] = common(own, peers[i]) })
	}
	return out, errs
}

// products computes it from private keys, if all were left.
func (a *Agreements) products(round uint64, own *ecdh.PrivateKey, peers []protocol.Key, out [][32]byte) bool {
	if a == nil {
		return false
	}
	keys := a.find(round, append(peers[:len(peers):len(peers)], protocol.Key(own.PublicKey().Bytes()))...)
	for _, k := range keys {
		if k == nil {
			return false
		}
	}
	copy(out, keys[len(peers)].Common(keys[:len(peers)]))
	return true
}
