package admission

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/fedsim/fedsim/protocol"
)

// A client compares every list with those before, and hands its list to no other party. So of an enrolment that it has
// verified it keeps the fields that lists are compared by, and none of the three signatures: 81 bytes in place of
// about 860. It keeps the digest of the text, too: a client that shows it is not sent the same list again.

// KeepKnown has the registry write of enrolments only what later lists are compared with. It suits a party
// that never shows its list to another. It is called before the first update.
func (r *Registry) KeepKnown() { r.brief = true }

// known are enrolments that a party has verified, in a log.
type known struct {
	Text    Hash   `json:"text"`    // SHA-256 of the list's text that has them and all before
	Parties []byte `json:"parties"` // knownSize each
}

// knownSize is the length of an enrolment in known: role, client, serial, not-after in seconds since 1970, the
// ticket's key and the identity.
const knownSize = 1 + 4 + 4 + 8 + 2*len(PublicKey{})

func knownOf(list []*Enrolment, text Hash) ([]byte, error) {
	k := known{Text: text, Parties: make([]byte, 0, knownSize*len(list))}
	for _, e := range list {
		t := &e.Ticket
		k.Parties = append(k.Parties, byte(t.Place.Role))
		k.Parties = binary.BigEndian.AppendUint32(k.Parties, uint32(t.Place.Client))
		k.Parties = binary.BigEndian.AppendUint32(k.Parties, t.Serial)
		k.Parties = binary.BigEndian.AppendUint64(k.Parties, uint64(t.NotAfter.Unix()))
		k.Parties = append(append(k.Parties, t.Key[:]...), e.Identity[:]...)
	}
	return encode(kindKnown, &k)
}

// replayKnown takes enrolments that were verified before they were written.
func (r *Registry) replayKnown(entry []byte) error {
	var k known
	if err := decode(kindKnown, entry, &k); err != nil {
		return err
	}
	if len(k.Parties)%knownSize != 0 {
		return fmt.Errorf("%w: %d bytes of parties, of %d each", ErrMalformed, len(k.Parties), knownSize)
	}
	list := make([]Enrolment, len(k.Parties)/knownSize)
	for i := range list {
		e, b := &list[i], k.Parties[i*knownSize:]
		t := &e.Ticket
		t.Federation, t.Place = r.hash, Place{Role: protocol.Role(b[0]), Client: protocol.ClientID(binary.BigEndian.Uint32(b[1:]))}
		t.Serial, t.NotAfter = binary.BigEndian.Uint32(b[5:]), time.Unix(int64(binary.BigEndian.Uint64(b[9:])), 0).UTC()
		copy(t.Key[:], b[17:])
		copy(e.Identity[:], b[17+len(t.Key):])
		if err := t.check(r.Federation()); err != nil {
			return err
		}
		if err := e.check(r.Federation()); err != nil {
			return err
		}
		if err := r.admit(e); err != nil {
			return err
		}
		r.enter(e)
	}
	r.view = &view{version: r.version, digest: k.Text} // see OpenRegistry
	return nil
}
