package forecast

import (
	"math"

	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// BytesForecast holds the bytes that one client sends and gets if no client is lost: messages with the headers of their
// frames, without the encryption of the transport, as long as in the first round. Later ones differ by a few bytes.
type BytesForecast struct {
	Messages []MessageForecast `json:"messages"` // in the order of a round
	// Removal is the largest expected size of the noise removals in the message unmask.
	Removal int           `json:"removal"`
	Round   Traffic       `json:"round"`           // of the most expensive round
	Steps   []StepTraffic `json:"steps,omitempty"` // if rounds differ
	Run     Traffic       `json:"run"`             // all rounds and the final model
}

// MessageForecast is a message that a client sends or gets.
type MessageForecast struct {
	Kind      string    `json:"kind"`
	Direction Direction `json:"direction"`
	Bytes     int       `json:"bytes"` // of the largest message
	Times     int       `json:"times"` // in the run
	Run       int64     `json:"run"`   // bytes of all messages together
}

func (m *MessageForecast) add(bytes, times int) {
	m.Bytes, m.Times = max(m.Bytes, bytes), m.Times+times
	m.Run += int64(bytes) * int64(times)
}

// StepTraffic is the traffic of each of some equal rounds.
type StepTraffic struct {
	Phase  string `json:"phase"`
	Rounds int    `json:"rounds"`
	Traffic
}

// Direction is the direction of a message, as a client sees it.
type Direction string

const (
	Up   Direction = "up"   // from the client
	Down Direction = "down" // to the client
)

// Traffic is bytes by direction.
type Traffic struct {
	Up   int64 `json:"up"`
	Down int64 `json:"down"`
}

func (t *Traffic) add(d Direction, bytes int64) {
	if d == Up {
		t.Up += bytes
	} else {
		t.Down += bytes
	}
}

// sizes returns the bytes of each kind of message for one client; 0: there is none.
func (e builder) sizes(step int, plan *protocol.Plan) (bytes [protocol.Kinds]int) {
	if e.Sums != nil {
		bytes = e.Sums[step].Bytes
	} else { // an ideal sum has no keys and no shares
		it := plan.Round
		messages := []protocol.Message{
			&protocol.Advertise{Round: it}, &protocol.Roster{Round: it}, &protocol.Shares{Round: it}, &protocol.Delivery{Round: it},
			&protocol.Prepared{Round: it}, &protocol.Proceed{Round: it}, &protocol.MaskedInput{Round: it, Packed: plan.PackedSize()}, &protocol.Survivors{Round: it},
			&protocol.Unmask{Round: it, Packed: plan.RemovalSize(e.Cohort.Wanted())},
		}
		if plan.Setup().Replaces {
			messages = append(messages, &protocol.Answered{Round: it}, &protocol.Replacement{Round: it})
		}
		for _, m := range messages {
			bytes[m.Kind()] = protocol.Size(m)
		}
	}
	announce := protocol.Announce{Plan: plan}
	bytes[announce.Kind()] = protocol.Size(&announce) // with the model
	return bytes
}

func (e builder) bytesForecast() *BytesForecast {
	f := new(BytesForecast)
	kinds := make([]MessageForecast, protocol.Kinds)
	for k := range protocol.Kinds {
		kinds[k] = MessageForecast{Kind: k.String(), Direction: Down}
		if k.Travels(protocol.Client, protocol.Aggregator) {
			kinds[k].Direction = Up
		}
	}
	alike := e.Schedule.Uniform()
	for i, plan := range e.Plans() {
		step := e.Schedule[i]
		if alike && i > 0 { // it differs only in its plan, by a few bytes
			break
		}
		if alike {
			step.Rounds = e.Schedule.Rounds()
		}
		plan.Round = 1
		plan.Broadcast = make([]byte, step.Model)
		f.Removal = max(f.Removal, plan.RemovalSize(e.Cohort.Wanted()))
		var each Traffic
		turns := e.Cohort.Turns(step.Rounds)
		for k, size := range e.sizes(i, plan) {
			if size > 0 {
				kinds[k].add(size, turns)
				each.add(kinds[k].Direction, int64(size))
			}
		}
		if each.Up+each.Down > f.Round.Up+f.Round.Down {
			f.Round = each
		}
		if !alike {
			f.Steps = append(f.Steps, StepTraffic{step.Phase, step.Rounds, each})
		}
	}
	kinds[protocol.KindFinal].add(protocol.Size(&protocol.Final{Model: make([]byte, e.Schedule.Model())}), 1)
	for _, m := range kinds {
		if m.Times > 0 {
			f.Messages = append(f.Messages, m)
			f.Run.add(m.Direction, m.Run)
		}
	}
	return f
}

// MemoryForecast estimates the memory that the aggregator needs in a round, in bytes, without
// connections. L is the length of a release, N the number of clients, k the number of neighbours of each.
//
//	accumulators  Σ L·4 for a ring of up to 32 bits, Σ L·8 for a wider one and for an ideal sum; twice that and N·(a proof)
//	              if inputs are verified
//	sums          Σ L·8, the released integers
//	keys          1.75·N·(advertise + consistency); 6.5·N·advertise if clients are shown parts of the roster
//	shares        1.06·N·k·(a dealt share + a revealed share) in memory; 600·N if shares wait on disk
//
// Keys in parts count twice, for the round and the next round, with the tree of the ring. (Measured: 3.1 times the
// message in one round.) Shares in memory stand one behind the other (measured: 1.05 times their bytes). If they take
// more than secagg.SharesInMemory they wait on disk, and so do the messages that are made of them: 450 bytes a client
// were measured, with the roster, and the rest is for queues. A masked input and a removal are added up and dropped.
// An ideal sum keeps no messages.
//
// Spooled is the room on disk that the shares then take. Total is the sum of the others, in the round that needs most.
// Unmasking needs more while masks are taken off: on every worker, accumulators for the longest release, and 1,100
// bytes (measured) for each of the 64 masks that the worker has open at a time.
type MemoryForecast struct {
	Accumulators int64 `json:"accumulators"`
	Sums         int64 `json:"sums"`
	Keys         int64 `json:"keys"`
	Shares       int64 `json:"shares"`
	Spooled      int64 `json:"spooled,omitempty"`
	Total        int64 `json:"total"`
	Unmasking    int64 `json:"unmasking_per_worker"`
}

const (
	keptPerByte   = 1.75
	keptInParts   = 6.5
	sharesPerByte = 1.06
	waitingEach   = 600
	bytesPerMask  = 1100
)

// memoryForecast is of a deployment or, in one process with all clients, of a simulation: its shares stay in memory.
func (e builder) memoryForecast(deployed bool) *MemoryForecast {
	var most *MemoryForecast
	for i := range e.Schedule {
		if f := e.stepMemory(i, deployed); most == nil || f.Total > most.Total {
			most = f
		}
	}
	return most
}

func (e builder) stepMemory(step int, deployed bool) *MemoryForecast {
	f := new(MemoryForecast)
	longest := int64(0)
	for _, r := range e.Schedule[step].Releases {
		word := int64(8)
		if e.Sums != nil && r.Width <= 32 {
			word = 4
		}
		f.Accumulators += word * int64(r.Len)
		longest = max(longest, word*int64(r.Len))
		f.Sums += 8 * int64(r.Len)
	}
	if e.Sums != nil {
		e.sharesMemory(f, step, deployed)
		f.Unmasking = longest + secagg.OpenMasks*bytesPerMask
		if proof := e.Sums[step].Proof; proof > 0 {
			f.Accumulators = 2*f.Accumulators + int64(proof)*int64(e.Cohort.Wanted())
		}
	}
	f.Total = f.Accumulators + f.Sums + f.Keys + f.Shares
	return f
}

// sharesMemory fills in what keys and shares take.
func (e builder) sharesMemory(f *MemoryForecast, step int, deployed bool) {
	n, sum := e.Cohort.Wanted(), e.Sums[step]
	perByte, mode := keptPerByte, e.Mode()
	if mode == secagg.SemiHonest && n > secagg.WholeUpTo {
		perByte = keptInParts
	}
	scaled := func(factor float64, bytes int64) int64 { return int64(math.Ceil(factor * float64(bytes))) }
	f.Keys = scaled(perByte, int64(n)*int64(sum.Bytes[protocol.KindAdvertise]+sum.Bytes[protocol.KindConsistency]))
	shares := secagg.SharedBytes(mode, sum.Bytes[protocol.KindReplacement] > 0, n, sum.Choice.Degree)
	f.Shares = scaled(sharesPerByte, shares.Dealt+shares.Revealed)
	if deployed && mode == secagg.SemiHonest && shares.Dealt+shares.Revealed > secagg.SharesInMemory {
		f.Shares, f.Spooled = waitingEach*int64(n), shares.Spooled
	}
}

// Memory of a simulation, in bytes, measured with lfl-sgdmf and ssp-c on 100 million ratings of
// 700,000 users: 610 and 770 a user. Sums are extra, and so is garbage, which is a share of all
// memory except files that are mapped.
const (
	bytesPerRun    = 64 << 20
	bytesPerRating = 24  // in columns: of the data, and of the parts of their split
	bytesElsewhere = 56  // more, for algorithms that do not work by user: the parties' ratings
	bytesPerUser   = 700 // of a client: its role, the messages of a stage in transit, its ledger, and its trained embedding
	garbage        = 0.5
)

// PeakMemory estimates the most memory of a simulation, in bytes, with all roles in one process.
func PeakMemory(x *experiment.Experiment) int64 {
	kept := float64(bytesPerRun) + bytesPerUser*float64(x.Data.Users)
	if x.About().Federated() {
		kept += float64(builder{x}.memoryForecast(false).Total) // of the aggregator
	}
	if packed := x.Data.Packed; packed != nil {
		return int64((1+garbage)*kept) + int64(packed.Size())
	}
	kept += bytesPerRating * float64(x.Data.Len())
	if !x.About().ByUser {
		kept += bytesElsewhere * float64(x.Data.Len())
	}
	return int64((1 + garbage) * kept)
}

// Calibration estimates the cost of a simulation on this machine, with all roles in one process. The
// times are extrapolated from training on some of its users.
type Calibration struct {
	// Processor is the processor time of the whole training, in seconds, with the measurements
	// after every round; and of a round. Wall is the time on the wall clock, with all workers, at
	// the last trial's ratio of the two.
	Processor float64 `json:"processor_seconds"`
	Round     float64 `json:"processor_seconds_per_round"`
	Wall      float64 `json:"wall_seconds"`
	Workers   int     `json:"workers"`
	// PeakMemory is the largest memory of the simulation, roughly ([PeakMemory]).
	PeakMemory int64 `json:"peak_memory_bytes"`

	Trials []Trial `json:"trials"`       // the trials behind the estimate
	Took   float64 `json:"took_seconds"` // of the trials, on the wall clock
}

// Trial is a timed training run.
type Trial struct {
	Users   int     `json:"users"`
	Ratings int     `json:"ratings"`           // trained on
	Seconds float64 `json:"processor_seconds"` // of the training run
	Wall    float64 `json:"wall_seconds"`      // of the training run
}

// CalibrationOf draws a line through one or two trials, by ratings. The line begins at the time that
// does not depend on ratings, such as for noise and for solving for the items; it is not below zero.
func CalibrationOf(trials []Trial, ratings, rounds, workers int) *Calibration {
	last := trials[len(trials)-1]
	base, slope := 0., last.Seconds/math.Max(float64(last.Ratings), 1)
	if first := trials[0]; last.Ratings > first.Ratings {
		slope = math.Max(last.Seconds-first.Seconds, 0) / float64(last.Ratings-first.Ratings)
		if base = last.Seconds - slope*float64(last.Ratings); base < 0 {
			base, slope = 0, last.Seconds/float64(last.Ratings)
		}
	}
	total := base + slope*float64(ratings)
	wall := 1 / math.Max(float64(workers), 1)
	if last.Seconds > 0 && last.Wall > 0 {
		wall = last.Wall / last.Seconds
	}
	return &Calibration{
		Processor: total, Round: total / math.Max(float64(rounds), 1), Wall: total * wall, Workers: workers, Trials: trials,
	}
}
