package forecast

import "github.com/fedsim/fedsim/internal/experiment"

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

// MemoryEstimate estimates the most memory that a simulation takes at once.
type MemoryEstimate struct {
	Ratings int  // of the data
	Packed  int  // bytes of the data if they stay packed; otherwise 0
	ByUser  bool // the algorithm works by user
	Users   int
	Sums    int64 // bytes of the aggregator
}

// Bytes returns the estimate.
func (p MemoryEstimate) Bytes() int64 {
	kept := float64(bytesPerRun) + bytesPerUser*float64(p.Users) + float64(p.Sums)
	if p.Packed > 0 {
		return int64((1+garbage)*kept) + int64(p.Packed)
	}
	kept += bytesPerRating * float64(p.Ratings)
	if !p.ByUser {
		kept += bytesElsewhere * float64(p.Ratings)
	}
	return int64((1 + garbage) * kept)
}

// PeakMemory estimates the most memory of a simulation of the experiment, in bytes, with all roles
// in one process.
func PeakMemory(x *experiment.Experiment) int64 {
	p := MemoryEstimate{Ratings: x.Data.Len(), ByUser: x.About().ByUser, Users: x.Data.Users}
	if packed := x.Data.Packed; packed != nil {
		p.Packed = packed.Size()
	}
	if x.About().Federated() {
		p.Sums = builder{x}.memoryForecast(false).Total
	}
	return p.Bytes()
}
