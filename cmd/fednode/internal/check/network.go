package check

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/cmd/fednode/internal/party"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/peer"
)

// Network dials the aggregator once as each party of the state, and adds whether it answers, knows the party and speaks this version of
// the protocol. It registers nothing, so a process of the party continues.
func (x *Report) Network(ctx context.Context) error {
	dirs, err := partiesIn(x.State)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		x.under = strings.TrimPrefix(strings.TrimPrefix(dir, x.State), string(filepath.Separator))
		m, err := admission.ReadFile(filepath.Join(dir, party.MembershipFile), admission.ParseMembership)
		var key admission.PrivateKey
		if err == nil {
			key, err = admission.ReadKey(filepath.Join(dir, party.IdentityFile))
		}
		var l *peer.Conn
		if err == nil {
			l, err = peer.NewConn(key, []admission.Contact{m.Contact}, peer.ProtocolID, zerolog.Nop())
		}
		if err == nil {
			err = l.Try(ctx)
		}
		if err != nil {
			x.add(Wrong, party.MembershipFile, "no connection to the aggregator: "+err.Error(), "see to the address, the port and this machine's network; --aggregator gives another address")
			continue
		}
		x.add(Fine, party.MembershipFile, fmt.Sprintf("the aggregator answers at %s, knows this party and speaks %s", strings.Join(m.Contact.Addresses, ", "), peer.ProtocolID), "")
	}
	return nil
}
