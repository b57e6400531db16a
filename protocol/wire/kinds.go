package wire

import "github.com/fedsim/fedsim/protocol"

// ways says between which roles messages of each kind travel.
var ways = [protocol.Kinds][]route{
	protocol.KindOpen:         {planned},
	protocol.KindAnnounce:     {down, handed},
	protocol.KindInvite:       {down},
	protocol.KindAdvertise:    {up},
	protocol.KindRoster:       {down},
	protocol.KindShares:       {up},
	protocol.KindDelivery:     {down},
	protocol.KindPrepared:     {up},
	protocol.KindProceed:      {down},
	protocol.KindMaskedInput:  {up},
	protocol.KindSurvivors:    {down},
	protocol.KindConsistency:  {up},
	protocol.KindQuorum:       {down},
	protocol.KindUnmask:       {up},
	protocol.KindAnswered:     {down},
	protocol.KindReplacement:  {up},
	protocol.KindRefusal:      {up},
	protocol.KindResult:       {released},
	protocol.KindAbort:        {released},
	protocol.KindHeld:         {released},
	protocol.KindFinal:        {planned, down, handed},
	protocol.KindForward:      {handed, relayed},
	protocol.KindRelayAck:     {handed},
	protocol.KindRelayCollect: {handed},
	protocol.KindPartial:      {relayed},
	protocol.KindRelayStatus:  {relayed},
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
