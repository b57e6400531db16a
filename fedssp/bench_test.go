package fedssp

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/user"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// BenchmarkOuterStep is a whole outer step at the size of MovieLens 1M, d = 32, on all cores: every
// user's fit and statistics, their sum, and the server's solve. of-gemm is its time over the time
// of the same floating-point operations as matrix products of gonum's blas64, measured in the same
// run. With a Gramian per item the memory of the sum takes the time: 528 of its coordinates are
// read and written for each of a million ratings.
func BenchmarkOuterStep(b *testing.B) {
	const users, items, ratings, rank = 6040, 3706, 1_000_209, 32
	rng := rand.New(rand.NewPCG(1, 1))
	rows := make([]model.Ratings, users)
	for i := range rows {
		for j := range items {
			if rng.IntN(users*items) < ratings {
				rows[i].Items = append(rows[i].Items, int32(j))
				rows[i].Values = append(rows[i].Values, float32(1+rng.IntN(5)))
			}
		}
	}
	run := protocol.Workers(runtime.GOMAXPROCS(0))
	for _, form := range []kernel.GramianForm{kernel.One, kernel.PerItem} {
		b.Run(string(form), func(b *testing.B) {
			p := plain(items, rank)
			p.Gramian, p.ItemPrior = form, 1
			s := newStrategy(b, p, users, 0.01)
			trainers, together := make([]*user.User, users), NewUsers(&p, users, rowsOf(rows)) // as a simulation has them
			for i := range trainers {
				trainers[i] = &together[i]
			}
			plan, _, err := s.Next()
			if err != nil {
				b.Fatal(err)
			}
			src, count := simulated.New(1, "bench"), operations(rows, &p)
			var step, product time.Duration
			for b.Loop() {
				begin := time.Now()
				sums := protocol.Sums{Values: make([][]float64, len(plan.Releases)), Survivors: users}
				sumOver(trainers, plan, &sums, func(u *user.User) []protocol.Vector {
					v, err := u.Contribute(plan, src, run)
					if err != nil {
						b.Error(err)
					}
					return v
				})
				if err := s.Absorb(plan, sums, run); err != nil {
					b.Fatal(err)
				}
				step += time.Since(begin)
				product += productTime(count, run) // in turn, so that a busy machine slows both
			}
			b.ReportMetric(float64(step)/float64(product), "of-gemm")
			b.ReportMetric(step.Seconds()/float64(b.N), "s/step")
			b.ReportMetric(0, "ns/op") // only the ratio is of interest; the time depends on the machine
		})
	}
}

// sumOver adds up contributions on all cores, each core into sums of its own. Multiples of long
// rows it adds up for some hundred users at a time and item by item, so that an item's coordinates
// stay in the cache meanwhile.
func sumOver(users []*user.User, plan *protocol.Plan, sums *protocol.Sums, contribute func(*user.User) []protocol.Vector) {
	const batch, long = 256, 256
	var mu sync.Mutex
	var group sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		group.Go(func() {
			own, later := make([][]float64, len(plan.Releases)), make([][]protocol.Vector, len(plan.Releases))
			for i, r := range plan.Releases {
				own[i] = make([]float64, r.Len)
			}
			for i := w * batch; i < len(users); i += workers * batch {
				for _, u := range users[i:min(i+batch, len(users))] {
					for k, v := range contribute(u) {
						if v.Factor != nil && len(v.Value) > long {
							later[k] = append(later[k], v)
						} else {
							add(own[k], v)
						}
					}
				}
				for k := range later {
					addByItem(own[k], later[k])
					later[k] = later[k][:0]
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for k := range own {
				if sums.Values[k] == nil {
					sums.Values[k] = own[k]
				} else {
					dense.Axpy(sums.Values[k], 1, own[k])
				}
			}
		})
	}
	group.Wait()
}

func add(sum []float64, v protocol.Vector) {
	row := len(v.Value)
	switch {
	case v.Index == nil:
		dense.Axpy(sum, 1, v.Value)
	case v.Factor == nil: // a number for each item
		for c, j := range v.Index {
			sum[j] += v.Value[c]
		}
	default:
		for c, j := range v.Index {
			dense.Axpy(sum[int(j)*row:][:row], v.Factor[c], v.Value)
		}
	}
}

func addByItem(sum []float64, vectors []protocol.Vector) {
	type term struct{ vector, at int32 }
	terms := make(map[uint32][]term)
	for i, v := range vectors {
		for at, j := range v.Index {
			terms[j] = append(terms[j], term{int32(i), int32(at)})
		}
	}
	for j, list := range terms {
		for _, t := range list {
			v := vectors[t.vector]
			dense.Axpy(sum[int(j)*len(v.Value):][:len(v.Value)], v.Factor[t.at], v.Value)
		}
	}
}

// operations counts multiplications and additions of an outer step.
//
// A user with n ratings takes nd² for Σ v vᵀ (it is symmetric), d³/3 for its factor and 4nd for
// right-hand side and moments.
//
// An item takes d³/3 for a factor. To discount noise it takes d³/3 for another factor, 2d³ for
// solving with it and 2d³ for a product. With one Gramian it takes instead 4d² for the way into the
// eigenbasis and back.
//
// The statistics u uᵀ of a user take d²/2 once. With a Gramian per item, each rating takes 3/2·d²
// to scale and add them up.
func operations(rows []model.Ratings, p *kernel.Params) float64 {
	d := float64(p.Rank)
	total := 0.0
	for _, r := range rows {
		n := float64(len(r.Items))
		total += n*d*d + d*d*d/3 + 4*n*d + d*d/2
		if p.Gramian == kernel.PerItem {
			total += 1.5 * n * d * d
		}
	}
	if p.Gramian == kernel.PerItem {
		return total + float64(p.Items)*d*d*d*(1.0/3+1.0/3+2+2)
	}
	return total + float64(p.Items)*4*d*d
}

// productTime is the time of so many operations as products of 256 x 256 matrices, on all cores.
func productTime(operations float64, run protocol.Runner) time.Duration {
	const n = 256
	each := 2.0 * n * n * n
	products := int(operations/each) + 1
	workers := runtime.GOMAXPROCS(0)
	begin := time.Now()
	run.Each(workers, func(w int) {
		m := func() blas64.General { return blas64.General{Rows: n, Cols: n, Stride: n, Data: make([]float64, n*n)} }
		x, y, z := m(), m(), m()
		for i := range x.Data {
			x.Data[i], y.Data[i] = float64(i%7), float64(i%5)
		}
		for range products {
			blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, x, y, 0, z)
		}
	})
	took := time.Since(begin)
	return time.Duration(float64(took) * operations / (each * float64(products*workers)))
}
