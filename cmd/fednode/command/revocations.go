package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/ops"
)

// revoker is a party's Revoke.
type revoker func(*admission.Revocations) error

// of is a registry's Revoke, while no party is connected.
func of(r *admission.Registry) revoker {
	return func(v *admission.Revocations) error { _, err := r.Revoke(v); return err }
}

// revoke gives the operator's revocations in a file to a party. A missing file is no error: there
// are none yet. "" is none. The party verifies them, by the operator's latest key that it knows.
func revoke(to revoker, path string) error {
	if path == "" {
		return nil
	}
	v, err := admission.ReadFile(path, admission.ParseRevocations)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // none so far
	}
	if err != nil {
		return err
	}
	if err = to(v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// parties are the parties of a process. They take revocations from the operator, past an aggregator that could hold them back.
type parties struct {
	path string // of the file; "": none

	mu   sync.Mutex
	list []*revoker
}

// check returns an error if the file cannot be read: a party reads it before it uses an invitation. A key of the operator that f does
// not name may have signed it.
func (p *parties) check(f *admission.Federation) error {
	if p.path == "" {
		return nil
	}
	if _, err := readRevocations(p.path, f); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, admission.ErrSignature) {
		return fmt.Errorf("--revocations: %w", err)
	}
	return nil
}

// join has a party take what there is, and until it leaves what the file says later.
func (p *parties) join(r revoker) (leave func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err = p.tell(&r); err != nil {
		return nil, err
	}
	p.list = append(p.list, &r)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.list = slices.DeleteFunc(p.list, func(other *revoker) bool { return other == &r })
	}, nil
}

// tell has a party take what the file says. It may know more: the aggregator shows the newest, unless it holds them back.
func (p *parties) tell(to *revoker) error {
	err := revoke(*to, p.path)
	if errors.Is(err, admission.ErrOutdated) {
		return nil
	}
	return err
}

func (p *parties) again() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(lists.Map(p.list, p.tell)...)
}

func (p *parties) follow(ctx context.Context, monitor *ops.Monitor, log *zerolog.Logger) (stop func()) {
	if p.path == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		onHangup(ctx, func() {
			err := p.again()
			if monitor.Reloaded(err == nil); err != nil {
				log.Error().Err(err).Msg("a file that cannot be read changes nothing")
				return
			}
			log.Info().Msg("revocations read again")
		})
	}()
	return func() { cancel(); <-done }
}
