package hub

import (
	"sync"

	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/session"
)

// repeated is a control message that all clients get alike, which is encoded once for as long as
// the list in it and its variant stay.
type repeated struct {
	mu      sync.Mutex
	list    admission.Hash // of its text
	variant int64
	bytes   []byte
}

func (r *repeated) frame(list admission.Hash, variant int64, compose func() *session.Message) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bytes == nil || r.variant != variant || r.list != list {
		b, err := compose().Frame()
		if err != nil {
			return nil, err
		}
		r.list, r.variant, r.bytes = list, variant, b
	}
	return r.bytes, nil
}
