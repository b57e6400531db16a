package hub

import (
	"sync"

	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/session"
)

// repeated is a control message that all clients get alike, which is encoded once for as long as
// the list in it stays, and whether the session has ended.
type repeated struct {
	mu    sync.Mutex
	list  admission.Hash // of its text
	ended bool
	bytes []byte
}

func (r *repeated) frame(list admission.Hash, ended bool, compose func() *session.Message) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bytes == nil || r.ended != ended || r.list != list {
		b, err := compose().Frame()
		if err != nil {
			return nil, err
		}
		r.list, r.ended, r.bytes = list, ended, b
	}
	return r.bytes, nil
}
