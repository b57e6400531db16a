package protocol

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/problems"
	"github.com/fedsim/fedsim/internal/protocol/codec"
)

// SessionID names one run of a federation. Ledgers are bound to it.
type SessionID [16]byte

// ClientID is a client's place in the enrolment list, from 0.
type ClientID uint32

// Plan says what one round computes. The server makes it, the aggregator relays it unchanged, and every client checks it: the
// client computes itself what the round costs its privacy, and never accepts that number from another party.
type Plan struct {
	Session   SessionID
	Round     uint64 // from 1; an attempt that fails uses its number up
	Phase     string // the algorithm's own name for what is asked, e.g. "item-gradient"
	Cohort    Cohort
	Releases  []Release
	Broadcast []byte // the shared part of the model, as the algorithm encodes it
	Signature []byte // the server's over all of this, see SignPlan; empty where everything runs in one process
}

// Setup is the part of a round that must be known before the stage masked-input. The plan may come
// later, so these first stages can run while the previous round is still under way.
type Setup struct {
	Session SessionID
	Round   uint64
	Cohort  Cohort
	// Replaces: the plan will replace noise, which takes a second sum, over what the noise changes by, and secrets for it.
	Replaces bool
}

// Setup is the plan's.
func (p *Plan) Setup() Setup {
	replaces := slices.ContainsFunc(p.Releases, func(r Release) bool { return r.Noise.Kind == TwoRound })
	return Setup{Session: p.Session, Round: p.Round, Cohort: p.Cohort, Replaces: replaces}
}

// Following is the setup of the next round of the same kind, with the same clients.
func (s Setup) Following() Setup {
	s.Round++
	return s
}

// Release is one named vector of a round, summed over the clients. Parties publish and sign it in this form of JSON.
type Release struct {
	Name string `json:"name"`
	Len  int    `json:"length"` // coordinates, 1 to MaxLen

	// Bounds on one client's vector that hold by construction, and that the client checks. They are its L2 norm, its L1 norm, the
	// magnitude of any coordinate, and the number of coordinates that may be other than zero. L1 0: the bound that follows from L2
	// and MaxNonZero. LInf 0: at most L2.
	L2         float64 `json:"l2"`
	L1         float64 `json:"l1"`
	LInf       float64 `json:"linf"`
	MaxNonZero int     `json:"max_non_zero"`

	Scale float64 `json:"scale"`     // integers = round(values · Scale)
	Width uint8   `json:"ring_bits"` // of the ring the integers are added in, 8 to 64
	Noise Noise   `json:"noise"`
	// Sensitivity bounds the change of the vector, in L2, if one unit of privacy changes and that
	// is less than all of it. For example, a client has many examples, and one of them gets another
	// label. 0: the unit is all the client's data, and its vector is there or zero.
	Sensitivity float64 `json:"sensitivity,omitempty"`
}

// NoiseKind says how the noise of a release is generated, and which parties generate it.
type NoiseKind uint8

const (
	// NoNoise: the exact sum is released. Nothing is private.
	NoNoise NoiseKind = iota
	// Split: every client adds a share of Skellam noise, large enough for the fewest survivors, and removes the surplus once they
	// are known, by thinning what it added. The default.
	Split
	// TwoRound: the published scheme, which replaces the noise instead of
	// removing a part. It releases two views of the sum and is charged for both.
	TwoRound
	// PartyNoise: each party noised its vector before it handed it over, in Steps
	// local steps, each of them a Gaussian release over a Poisson sample.
	PartyNoise
	// LocalNoise: every client adds Skellam noise that suffices by itself, and takes nothing back: local differential privacy. One
	// client's messages are private even from an aggregator and all other clients together.
	LocalNoise
)

var noiseNames = [...]string{NoNoise: "none", Split: "split", TwoRound: "replace", PartyNoise: "own", LocalNoise: "local"}

func (k NoiseKind) String() string { return nameOf(noiseNames[:], k, "NoiseKind") }

// MarshalText is String.
func (k NoiseKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads what MarshalText writes of a known kind.
func (k *NoiseKind) UnmarshalText(text []byte) error {
	i := slices.Index(noiseNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("noise is %.20q; it must be one of none, split, replace, own, local", text)
	}
	*k = NoiseKind(i)
	return nil
}

// Noise is the noise of a release. Fields that a kind does not use are zero.
type Noise struct {
	Kind NoiseKind `json:"kind"`

	// Variance is, of Split and Replace, the target variance of the honest clients' noise in the sum, per coordinate and in integer
	// units (V = s²σ²). Of LocalNoise it is the variance of each client's noise.
	Variance float64 `json:"variance"`

	// A party with noise of its Own makes Steps steps. Each is over a Poisson sample of rate
	// SamplingRate in (0, 1], noised with Multiplier times the L2 sensitivity of the step.
	//
	// Of Split and LocalNoise a SamplingRate in (0, 1) is the probability that a client gives something, by a secret coin of its
	// own. Otherwise it sends zeros and noise. One toss is for all releases of a round of that rate. 0 is all clients.
	Multiplier   float64 `json:"multiplier"`
	SamplingRate float64 `json:"sampling_rate"`
	Steps        int     `json:"steps"`
	// Spread: the data of one unit of privacy may be spread over all clients of the
	// cohort, so that each client charges what all of them spend together.
	Spread bool `json:"spread"`
}

// Bounds on noise of a party's own: far beyond what a budget asks for. A sampling rate below, or noise above, is an attempt to have
// steps charged next to nothing.
const (
	minSamplingRate = 1e-9
	maxMultiplier   = 1e12
)

// maxVariance is the variance of noise whose deviation alone wraps in every ring.
const maxVariance = 0x1p126

// MaxLen is the most coordinates of a release. It keeps sizes that are computed from
// lengths from overflowing, also where an int has 32 bits.
const MaxLen = min(1<<30, math.MaxInt>>4)

// validate reports everything that makes the noise unusable.
func (n Noise) validate() error {
	var errs problems.List
	positive := func(what string, v float64) {
		errs.If(!(v > 0) || math.IsInf(v, 1), "noise %s is %v; it must be positive and finite", what, v)
	}
	switch n.Kind {
	case Split, TwoRound, LocalNoise:
		positive("variance", n.Variance)
		errs.If(n.Variance > maxVariance && !math.IsInf(n.Variance, 1), "noise variance is %v; it must be at most %v", n.Variance, maxVariance)
	case PartyNoise:
		positive("multiplier", n.Multiplier)
		errs.If(n.Multiplier > maxMultiplier && !math.IsInf(n.Multiplier, 1),
			"noise multiplier is %v; it must be at most %v", n.Multiplier, maxMultiplier)
		errs.If(!(n.SamplingRate >= minSamplingRate && n.SamplingRate <= 1),
			"noise sampling rate is %v; it must be from %v to 1", n.SamplingRate, minSamplingRate)
		errs.If(n.Steps < 1, "noise steps are %d; there must be at least 1", n.Steps)
	case NoNoise:
	default:
		return fmt.Errorf("noise is %s; it must be one of none, split, replace, own, local", n.Kind)
	}
	errs.If(n.Variance != 0 && !n.Distributed(), "noise variance is %v, but the noise is %s", n.Variance, n.Kind)
	batched := (n.Kind == Split || n.Kind == LocalNoise) && n.SamplingRate >= minSamplingRate && n.SamplingRate < 1
	errs.If(n.Kind != PartyNoise && (n.Multiplier != 0 || n.SamplingRate != 0 && !batched || n.Steps != 0 || n.Spread),
		"noise has a multiplier of %v, a sampling rate of %v and %d steps, but is %s", n.Multiplier, n.SamplingRate, n.Steps, n.Kind)
	return errors.Join(errs...)
}

// Distributed reports whether clients add Skellam noise to what they send.
func (n Noise) Distributed() bool {
	return n.Kind == Split || n.Kind == LocalNoise || n.Kind == TwoRound
}

// batched reports whether the release is of a sample of the clients.
func (n Noise) batched() bool { return n.Distributed() && n.SamplingRate > 0 }

// Reduced reports whether clients change the noise once the survivors are known.
func (n Noise) Reduced() bool { return n.Kind == Split || n.Kind == TwoRound }

// Share is the variance of what each client adds before the survivors are known.
func (n Noise) Share(c Cohort) float64 {
	if n.Kind == LocalNoise {
		return n.Variance
	}
	return c.ShareVariance(n.Variance)
}

// Final is the variance of the noise in the sum over u1 survivors of whom u2 reduced theirs, where it is reduced.
func (n Noise) Final(c Cohort, u1, u2 int) float64 {
	if n.Kind == LocalNoise {
		return float64(u1) * n.Variance
	}
	return c.FinalVariance(n.Variance, u1, u2)
}

// Target is the variance that is planned for in a sum: V, or, where noise is local, the variance of all clients' noise together.
func (n Noise) Target(c Cohort) float64 {
	if n.Kind == LocalNoise {
		return float64(c.Clients) * n.Variance
	}
	return n.Variance
}

// event is the cost to each of clients of a release with noise of the parties' own.
func (n Noise) event(clients int) dp.Event {
	e := dp.SubsampledGaussian(n.Multiplier, n.SamplingRate)
	if n.SamplingRate == 1 {
		e = dp.Gaussian(n.Multiplier)
	}
	if n.Spread {
		e = e.Times(clients)
	}
	return e.Times(n.Steps)
}

// Bounds returns the declared integer sensitivities (D2, D1) of the release: the distance by which one unit of privacy moves a
// client's vector. Where a Sensitivity is declared, two vectors are compared, and each is rounded. So rounding adds up to 1 in each
// of the h coordinates where one of them is not zero: D2 = s·Sensitivity + √h.
func (r Release) Bounds() (d2, d1 float64) {
	if r.Sensitivity == 0 {
		return r.VectorBounds()
	}
	h := float64(min(2*r.MaxNonZero, r.Len))
	d2 = r.Scale*r.Sensitivity + math.Sqrt(h)
	return d2, max(d2, min(math.Sqrt(h)*d2, d2*d2))
}

// VectorBounds returns the bounds on the L2 and the L1 norm of a client's vector, in integers.
func (r Release) VectorBounds() (d2, d1 float64) {
	return dp.IntegerBounds(dp.Fixed{L2: r.L2, L1: r.L1, Scale: r.Scale, MaxNonZero: r.MaxNonZero})
}

// Validate reports everything that makes the release unusable.
func (r Release) Validate() error {
	var errs problems.List
	bad := func(holds bool, format string, args ...any) {
		errs.If(holds, "release %q: "+format, append([]any{r.Name}, args...)...)
	}
	bad(r.Len < 1 || r.Len > MaxLen, "length is %d; it must be from 1 to %d", r.Len, MaxLen)
	bad(r.MaxNonZero < 1 || r.MaxNonZero > r.Len, "max-non-zero is %d; it must be from 1 to the length %d", r.MaxNonZero, r.Len)
	bad(!(r.L2 > 0) || math.IsInf(r.L2, 1), "L2 bound is %v; it must be positive and finite", r.L2)
	bad(!(r.L1 >= 0) || math.IsInf(r.L1, 1), "L1 bound is %v; it must be positive and finite, or 0 for none", r.L1)
	bad(!(r.Sensitivity >= 0) || r.Sensitivity > 2*r.L2,
		"sensitivity is %v; it must be from 0 to twice the L2 bound of %v", r.Sensitivity, r.L2)
	bad(!(r.Scale > 0) || math.IsInf(r.Scale, 1), "scale is %v; it must be positive and finite", r.Scale)
	bad(r.Width < 8 || r.Width > 64, "ring width is %d bits; it must be from 8 to 64", r.Width)
	bad(!(r.LInf >= 0) || math.IsInf(r.LInf, 1), "bound on coordinates is %v; it must be positive and finite, or 0 for none", r.LInf)
	err := r.Noise.validate()
	bad(err != nil, "%w", err)
	bad(r.Sensitivity != 0 && r.Noise.batched(),
		"samples of clients are accounted for by whether one is in, and a sensitivity of %v is of what one exchanges", r.Sensitivity)
	return errors.Join(errs...)
}

// Validate reports everything that makes the plan unusable.
func (p *Plan) Validate() error {
	errs := problems.List{p.Cohort.Validate()}
	errs.If(p.Round == 0, "round is 0; rounds count from 1")
	errs.If(len(p.Releases) == 0, "the plan releases nothing")
	names := make(map[string]bool)
	for _, r := range p.Releases {
		// Noise is drawn from streams by name: two of one name would share it.
		errs = append(errs, r.Validate())
		errs.If(names[r.Name], "release %q: the name stands twice; names must differ", r.Name)
		names[r.Name] = true
	}
	return errors.Join(errs...)
}

// ErrUnprotected is returned for a plan that would release something without any noise.
var ErrUnprotected = errors.New("the plan releases an exact sum: no privacy budget covers that")

// Charges is an upper limit of the privacy cost to a client of taking part in the round: the events to charge before its masked
// input leaves. A split release costs one Skellam release of the target variance. So does a release with local noise, whose
// variance is each client's. The releases of a sample, which one coin decides about, cost one release together. A replaced release
// is seen twice, and costs the maximum over all tolerated patterns of dropouts. A release that parties noise themselves costs their
// local steps. ErrUnprotected is returned if a release has no noise.
func (p *Plan) Charges() ([]dp.Event, error) {
	c := p.Cohort
	var events []dp.Event
	var drawn sample
	for _, r := range p.Releases {
		d2, d1 := r.Bounds()
		switch r.Noise.Kind {
		case Split, LocalNoise:
			if r.Noise.batched() {
				drawn.add(r.Noise, d2, d1)
				continue
			}
			events = append(events, dp.Skellam(r.Noise.Variance, d2, d1))
		case TwoRound:
			// Most is seen when no client is lost before the masked input and as many as are tolerated fall silent after it.
			views, err := p.Views(r, c.Clients, c.Required())
			if err != nil {
				return nil, err
			}
			events = append(events, views...)
		case PartyNoise:
			events = append(events, r.Noise.event(c.Clients))
		default:
			return nil, fmt.Errorf("release %q: %w", r.Name, ErrUnprotected)
		}
	}
	return drawn.events(events)
}

// Zeros is an input of nothing: of each release no coordinate is listed.
func (p *Plan) Zeros() []Integers {
	out := make([]Integers, len(p.Releases))
	for i := range out {
		out[i].Index = []uint32{}
	}
	return out
}

// OwnNoise reports whether parties add the noise of some release themselves, during training. Then
// accepting the plan costs privacy, not sending the result.
func (p *Plan) OwnNoise() bool {
	return slices.ContainsFunc(p.Releases, func(r Release) bool { return r.Noise.Kind == PartyNoise })
}

// Views returns the releases that the replaced release r showed when survivors clients
// sent a masked input and answered of them replaced their noise.
func (p *Plan) Views(r Release, survivors, answered int) ([]dp.Event, error) {
	c := p.Cohort
	d2, d1 := r.Bounds()
	v1, v2, err := dp.ReplaceViews(r.Noise.Variance, c.Honest(c.Required()), c.Honest(survivors), c.Honest(answered))
	if err != nil {
		return nil, fmt.Errorf("release %q: %w", r.Name, err)
	}
	return []dp.Event{dp.Skellam(v1, d2, d1), dp.Skellam(v2, d2, d1)}, nil
}

// Sums holds the released sums of a round: per release of the plan the dense sum over the
// survivors, in the units of the contributions, noise included.
type Sums struct {
	Values    [][]float64
	Survivors int
}

// Runner runs f(0) to f(n-1), in any order and perhaps at once, and returns when all have returned.
type Runner interface {
	Each(n int, f func(i int))
}

// FrameHeader is the length in bytes of the header of each frame of a message on the
// wire, and FramePayload the most bytes of the message that a frame carries.
const (
	FrameHeader  = 5
	FramePayload = 256 << 10

	// LongMessage is the length in bytes from which a message may take longer on a slow line than a stage waits for an answer.
	LongMessage = 64 << 10
)

// Size returns the length in bytes of a message on the wire, with the headers of its frames and without encryption of the
// transport. It is exact, except for the parts that only an ideal sum sends: it counts the parts of a real sum in their place.
// Packed counts as the vector, or the removal, of one release.
func Size(m Message) int {
	n := codec.Count(m.fields)
	return n + FrameHeader*max(1, (n+FramePayload-1)/FramePayload)
}

// PiggybackSize returns how many of a message's bytes belong to the message that travels with it.
// On its own, that message would take a frame's header more.
func PiggybackSize(m Message) int {
	r := Piggyback(m)
	if r == nil {
		return 0
	}
	n := codec.Count(r.fields)
	return 1 + codec.Varint(uint64(n)) + n
}

// PackedSize is the size in bytes of one client's vectors of the plan, every coordinate at the width of its ring.
func (p *Plan) PackedSize() int {
	n := 0
	for _, r := range p.Releases {
		n += r.packedSize()
	}
	return n
}

func (r Release) packedSize() int { return (r.Len*int(r.Width) + 7) / 8 }

// Rosters and deliveries of very many clients would take much memory while they wait to be sent. So they may wait
// without their long parts, and load these when they are sent.

// IsWhole reports whether a message has all its parts. Only a message that has may be encoded.
func IsWhole(m Message) bool {
	switch m := m.(type) {
	case nil:
		return true
	case *Roster:
		return m.Load == nil
	case *Delivery:
		return m.Load == nil
	case *Forward:
		return IsWhole(m.Message)
	default:
		return IsWhole(Piggyback(m))
	}
}

// Whole returns a message with all its parts: the message itself if it has them. It may be called by any goroutine.
// An error says that a part cannot be loaded; it is fs.ErrClosed if the part is not of use any more.
func Whole(m Message) (Message, error) {
	if IsWhole(m) {
		return m, nil
	}
	switch m := m.(type) {
	case *Roster:
		return m.Load()
	case *Delivery:
		return m.Load()
	case *Announce:
		d, err := m.Delivery.Load()
		return &Announce{Plan: m.Plan, Delivery: d, Anew: m.Anew}, err
	case *Survivors:
		with := *m
		var err error
		with.Next, err = m.Next.Load()
		return &with, err
	case *Forward:
		with := *m
		var err error
		with.Message, err = Whole(m.Message)
		return &with, err
	default:
		return m, nil
	}
}
