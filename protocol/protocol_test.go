package protocol_test

import (
	"slices"
	"testing"

	"github.com/fedsim/fedsim/protocol"
)

// The stages follow each other as the protocol lists them for each kind of round. A round has a
// stage if it reaches it.
func TestCourse(t *testing.T) {
	for _, c := range []struct {
		course protocol.StageFlow
		want   []string
	}{
		{protocol.StageFlow{}, []string{"advertise", "share", "masked-input", "unmask"}},
		{protocol.StageFlow{Prepares: true}, []string{"advertise", "share", "prepared", "masked-input", "unmask"}},
		{protocol.StageFlow{Confirms: true}, []string{"advertise", "share", "masked-input", "consistency", "unmask"}},
		{protocol.StageFlow{Replaces: true}, []string{"advertise", "share", "masked-input", "unmask", "replace"}},
		{protocol.StageFlow{Confirms: true, Replaces: true}, []string{"advertise", "share", "masked-input", "consistency", "unmask", "replace"}},
	} {
		var got []string
		for s := protocol.StageAdvertise; s != protocol.Stages; s = c.course.After(s) {
			if got = append(got, s.String()); len(got) > int(protocol.Stages) {
				t.Fatalf("%+v goes on: %v", c.course, got)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v goes through %v, want %v", c.course, got, c.want)
		}
		for s := range protocol.Stages {
			if has := slices.Contains(c.want, s.String()); c.course.Has(s) != has {
				t.Errorf("%+v has the stage %s: %t, want %t", c.course, s, !has, has)
			}
		}
		if c.course.Has(protocol.Stages) {
			t.Errorf("%+v has a stage after the last", c.course)
		}
	}
}

// A single release with replaced noise makes the whole round replace noise, and the next round is
// set up for the same.
func TestSetupReplaces(t *testing.T) {
	release := func(k protocol.NoiseKind) protocol.Release { return protocol.Release{Noise: protocol.Noise{Kind: k}} }
	for _, c := range []struct {
		releases []protocol.Release
		want     bool
	}{
		{nil, false},
		{[]protocol.Release{release(protocol.NoNoise), release(protocol.Split), release(protocol.PartyNoise)}, false},
		{[]protocol.Release{release(protocol.TwoRound)}, true},
		{[]protocol.Release{release(protocol.Split), release(protocol.TwoRound)}, true},
	} {
		p := protocol.Plan{Session: protocol.SessionID{3}, Round: 7, Cohort: protocol.Cohort{Clients: 5}, Releases: c.releases}
		s := p.Setup()
		if want := (protocol.Setup{Session: p.Session, Round: 7, Cohort: p.Cohort, Replaces: c.want}); s != want {
			t.Errorf("%v is set up as %+v, want %+v", c.releases, s, want)
		}
		if next := s.Following(); next != (protocol.Setup{Session: p.Session, Round: 8, Cohort: p.Cohort, Replaces: c.want}) {
			t.Errorf("%+v is followed by %+v", s, next)
		}
	}
}
