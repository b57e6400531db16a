package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// grow signs another epoch of the federation, and invites to the places that are new. The federation
// is written before the invitations: what is invited to is always there.
func (o *operator) grow(c *inviteCmd, offer admission.Offer, s streams) error {
	places, err := parsePlaces("--remove", c.Remove)
	if err != nil {
		return err
	}
	var gone []protocol.ClientID
	for _, p := range places {
		if p.Role != protocol.Client || int64(p.Client) >= int64(o.federation.Places()) {
			return cli.Misusef("--remove %s: a client's place is needed, from client 0 to client %d", p, o.federation.Places()-1)
		}
		gone = append(gone, p.Client)
	}
	first := o.federation.Places()
	next, err := o.federation.Grow(o.key, c.Add, gone, time.Now())
	if err != nil {
		return cli.Misusef("%w", err)
	}
	text, err := next.Encode()
	if err != nil {
		return err
	}
	if err = admission.WriteFile(c.Federation, text); err != nil {
		return err
	}
	o.federation = next
	o.tickets = slices.DeleteFunc(o.tickets, func(t admission.Ticket) bool { return next.Gone(t.Place) })
	for _, p := range places { // an invitation that was not used is void
		if err = os.Remove(filepath.Join(c.Out, invitationFile(p))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if c.Format != "json" {
		if _, err = fmt.Fprintf(s.out, "epoch %d  %d places, %d given up  %s\n", len(next.Epochs), next.Places(), len(next.Retired()), c.Federation); err != nil {
			return err
		}
	}
	if c.Add > 0 {
		for id := first; id < next.Places(); id++ {
			c.Place = append(c.Place, admission.ClientPlace(protocol.ClientID(id)).String())
		}
		return o.invite(c, offer, s)
	}
	if err = o.keep(c.Out); err != nil || c.Format != "json" {
		return err
	}
	return cli.PrintJSON(s.out, map[string]any{"epoch": len(next.Epochs), "places": next.Places(), "removed": c.Remove, "file": c.Federation})
}
