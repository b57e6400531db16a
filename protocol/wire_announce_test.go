package protocol_test

import (
	"bytes"
	"slices"
	"testing"

	_ "github.com/fedsim/fedsim/internal/effort" // spares processor time
	"github.com/fedsim/fedsim/internal/protocol/wire"
	"github.com/fedsim/fedsim/protocol"
)

// The pieces of announcements are the frames that are made at once, wherever these end:
// in the plan, between it and the delivery, or in that. And plans are not encoded anew:
// pieces of one plan are the same memory.
func TestAnnouncementsShareTheirPlan(t *testing.T) {
	golden := messages()["announce, set up ahead"].(*protocol.Announce)
	plain, err := wire.Marshal(&protocol.Announce{Plan: golden.Plan})
	if err != nil {
		t.Fatal(err)
	}
	// The delivery takes about a hundred bytes, and the first frame ends within it.
	lengths := []int{1, protocol.FramePayload, 2*protocol.FramePayload + 7}
	for more := range 20 {
		lengths = append(lengths, protocol.FramePayload-len(plain)-150+10*more)
	}
	for _, length := range lengths {
		plan := *golden.Plan
		plan.Broadcast = fill(length, 0)
		var a wire.Announcer
		with, failed := a.Frames(&protocol.Announce{Plan: &plan, Delivery: golden.Delivery})
		if failed != nil {
			t.Fatal(failed)
		}
		without, failed := a.Frames(&protocol.Announce{Plan: &plan})
		if failed != nil {
			t.Fatal(failed)
		}
		anew, failed := a.Frames(&protocol.Announce{Plan: &plan, Anew: 300})
		if failed != nil {
			t.Fatal(failed)
		}
		for _, c := range []struct {
			pieces   [][]byte
			delivery *protocol.Delivery
			anew     uint32
		}{{with, golden.Delivery, 0}, {without, nil, 0}, {anew, nil, 300}} {
			want, failed := wire.AppendFrames(nil, &protocol.Announce{Plan: &plan, Delivery: c.delivery, Anew: c.anew})
			if failed != nil {
				t.Fatal(failed)
			}
			if !bytes.Equal(slices.Concat(c.pieces...), want) {
				t.Fatalf("a broadcast of %d bytes, delivery %v: the pieces are not the frames", length, c.delivery != nil)
			}
		}
		if &with[1][0] != &without[1][0] {
			t.Fatal("the plan is encoded for each announcement")
		}
	}
	other := *golden.Plan
	other.Round--
	var a wire.Announcer
	for _, plan := range []*protocol.Plan{golden.Plan, &other} {
		pieces, failed := a.Frames(&protocol.Announce{Plan: plan})
		want, unframed := wire.AppendFrames(nil, &protocol.Announce{Plan: plan})
		if failed != nil || unframed != nil || !bytes.Equal(slices.Concat(pieces...), want) {
			t.Errorf("the announcement of round %d: %v, %v, or other bytes", plan.Round, failed, unframed)
		}
	}
	if _, err = a.Frames(&protocol.Announce{Plan: golden.Plan, Delivery: &protocol.Delivery{}}); err == nil {
		t.Error("a delivery that Unmarshal would refuse is encoded")
	}
	if _, err = a.Frames(&protocol.Announce{}); err == nil {
		t.Error("an announcement without a plan is encoded")
	}
}
