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
	ways    []route
}{
	protocol.KindOpen:         {wirepb.Kind_KIND_OPEN, (*wirepb.Open)(nil), []route{planned}},
	protocol.KindAnnounce:     {wirepb.Kind_KIND_ANNOUNCE, (*wirepb.Announce)(nil), []route{down, handed}},
	protocol.KindInvite:       {wirepb.Kind_KIND_INVITE, (*wirepb.Invite)(nil), []route{down}},
	protocol.KindAdvertise:    {wirepb.Kind_KIND_ADVERTISE, (*wirepb.Advertise)(nil), []route{up}},
	protocol.KindRoster:       {wirepb.Kind_KIND_ROSTER, (*wirepb.Roster)(nil), []route{down}},
	protocol.KindShares:       {wirepb.Kind_KIND_SHARES, (*wirepb.Shares)(nil), []route{up}},
	protocol.KindDelivery:     {wirepb.Kind_KIND_DELIVERY, (*wirepb.Delivery)(nil), []route{down}},
	protocol.KindPrepared:     {wirepb.Kind_KIND_PREPARED, (*wirepb.Prepared)(nil), []route{up}},
	protocol.KindProceed:      {wirepb.Kind_KIND_PROCEED, (*wirepb.Proceed)(nil), []route{down}},
	protocol.KindMaskedInput:  {wirepb.Kind_KIND_MASKED_INPUT, (*wirepb.MaskedInput)(nil), []route{up}},
	protocol.KindSurvivors:    {wirepb.Kind_KIND_SURVIVORS, (*wirepb.Survivors)(nil), []route{down}},
	protocol.KindConsistency:  {wirepb.Kind_KIND_CONSISTENCY, (*wirepb.Consistency)(nil), []route{up}},
	protocol.KindQuorum:       {wirepb.Kind_KIND_QUORUM, (*wirepb.Quorum)(nil), []route{down}},
	protocol.KindUnmask:       {wirepb.Kind_KIND_UNMASK, (*wirepb.Unmask)(nil), []route{up}},
	protocol.KindAnswered:     {wirepb.Kind_KIND_ANSWERED, (*wirepb.Answered)(nil), []route{down}},
	protocol.KindReplacement:  {wirepb.Kind_KIND_REPLACEMENT, (*wirepb.Replacement)(nil), []route{up}},
	protocol.KindRefusal:      {wirepb.Kind_KIND_REFUSAL, (*wirepb.Refusal)(nil), []route{up}},
	protocol.KindResult:       {wirepb.Kind_KIND_RESULT, (*wirepb.Result)(nil), []route{released}},
	protocol.KindAbort:        {wirepb.Kind_KIND_ABORT, (*wirepb.Abort)(nil), []route{released}},
	protocol.KindHeld:         {wirepb.Kind_KIND_HELD, (*wirepb.Held)(nil), []route{released}},
	protocol.KindFinal:        {wirepb.Kind_KIND_FINAL, (*wirepb.Final)(nil), []route{planned, down, handed}},
	protocol.KindForward:      {wirepb.Kind_KIND_FORWARD, (*wirepb.Forward)(nil), []route{handed, relayed}},
	protocol.KindRelayAck:     {wirepb.Kind_KIND_RELAY_ACK, (*wirepb.RelayAck)(nil), []route{handed}},
	protocol.KindRelayCollect: {wirepb.Kind_KIND_RELAY_COLLECT, (*wirepb.RelayCollect)(nil), []route{handed}},
	protocol.KindPartial:      {wirepb.Kind_KIND_PARTIAL, (*wirepb.Partial)(nil), []route{relayed}},
	protocol.KindRelayStatus:  {wirepb.Kind_KIND_RELAY_STATUS, (*wirepb.RelayStatus)(nil), []route{relayed}},
}

// route is from whom to whom.
type route struct{ from, to protocol.Role }

var (
	planned  = route{protocol.Server, protocol.Aggregator}
	released = route{protocol.Aggregator, protocol.Server}
	down     = route{protocol.Aggregator, protocol.Client}
	up       = route{protocol.Client, protocol.Aggregator}
	handed   = route{protocol.Aggregator, protocol.Relay}
	relayed  = route{protocol.Relay, protocol.Aggregator}
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
