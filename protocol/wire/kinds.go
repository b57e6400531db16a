package wire

import (
	"google.golang.org/protobuf/proto"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/protocol/wire/internal/wirepb"
)

// kinds says of each kind its number in a frame's header, its message in
// wire.proto, and between which roles it travels.
var kinds = [protocol.Kinds]struct {
	code    wirepb.Kind
	message proto.Message
	ways    []way
}{
	protocol.KindOpen:        {wirepb.Kind_KIND_OPEN, (*wirepb.Open)(nil), []way{planned}},
	protocol.KindAnnounce:    {wirepb.Kind_KIND_ANNOUNCE, (*wirepb.Announce)(nil), []way{down, handed}},
	protocol.KindInvite:      {wirepb.Kind_KIND_INVITE, (*wirepb.Invite)(nil), []way{down}},
	protocol.KindAdvertise:   {wirepb.Kind_KIND_ADVERTISE, (*wirepb.Advertise)(nil), []way{up}},
	protocol.KindRoster:      {wirepb.Kind_KIND_ROSTER, (*wirepb.Roster)(nil), []way{down}},
	protocol.KindShares:      {wirepb.Kind_KIND_SHARES, (*wirepb.Shares)(nil), []way{up}},
	protocol.KindDelivery:    {wirepb.Kind_KIND_DELIVERY, (*wirepb.Delivery)(nil), []way{down}},
	protocol.KindMaskedInput: {wirepb.Kind_KIND_MASKED_INPUT, (*wirepb.MaskedInput)(nil), []way{up}},
	protocol.KindSurvivors:   {wirepb.Kind_KIND_SURVIVORS, (*wirepb.Survivors)(nil), []way{down}},
	protocol.KindConsistency: {wirepb.Kind_KIND_CONSISTENCY, (*wirepb.Consistency)(nil), []way{up}},
	protocol.KindQuorum:      {wirepb.Kind_KIND_QUORUM, (*wirepb.Quorum)(nil), []way{down}},
	protocol.KindUnmask:      {wirepb.Kind_KIND_UNMASK, (*wirepb.Unmask)(nil), []way{up}},
	protocol.KindAnswered:    {wirepb.Kind_KIND_ANSWERED, (*wirepb.Answered)(nil), []way{down}},
	protocol.KindReplacement: {wirepb.Kind_KIND_REPLACEMENT, (*wirepb.Replacement)(nil), []way{up}},
	protocol.KindResult:      {wirepb.Kind_KIND_RESULT, (*wirepb.Result)(nil), []way{released}},
	protocol.KindAbort:       {wirepb.Kind_KIND_ABORT, (*wirepb.Abort)(nil), []way{released}},
	protocol.KindHeld:        {wirepb.Kind_KIND_HELD, (*wirepb.Held)(nil), []way{released}},
	protocol.KindFinal:       {wirepb.Kind_KIND_FINAL, (*wirepb.Final)(nil), []way{planned, down, handed}},
	protocol.KindForward:     {wirepb.Kind_KIND_FORWARD, (*wirepb.Forward)(nil), []way{handed, relayed}},
	protocol.KindCounted:     {wirepb.Kind_KIND_COUNTED, (*wirepb.Counted)(nil), []way{handed}},
	protocol.KindCollect:     {wirepb.Kind_KIND_COLLECT, (*wirepb.Collect)(nil), []way{handed}},
	protocol.KindPartial:     {wirepb.Kind_KIND_PARTIAL, (*wirepb.Partial)(nil), []way{relayed}},
	protocol.KindPresence:    {wirepb.Kind_KIND_PRESENCE, (*wirepb.Presence)(nil), []way{relayed}},
}

// way is from whom to whom.
type way struct{ from, to protocol.Role }

var (
	planned  = way{protocol.Server, protocol.Aggregator}
	released = way{protocol.Aggregator, protocol.Server}
	down     = way{protocol.Aggregator, protocol.Client}
	up       = way{protocol.Client, protocol.Aggregator}
	handed   = way{protocol.Aggregator, protocol.Relay}
	relayed  = way{protocol.Relay, protocol.Aggregator}
)

// kindOf is the kind of a number in a frame's header.
func kindOf(code byte) (protocol.Kind, bool) {
	for k, row := range kinds {
		if byte(row.code) == code {
			return protocol.Kind(k), true
		}
	}
	return 0, false
}

// empty is a message of the kind to decode into; nil if there is no such kind.
func empty(k protocol.Kind) proto.Message {
	if k >= protocol.Kinds {
		return nil
	}
	return kinds[k].message.ProtoReflect().New().Interface()
}
