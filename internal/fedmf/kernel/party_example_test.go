package kernel_test

import (
	"fmt"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/fedmf/kernel"
	"github.com/fedsim/fedsim/internal/modelserver"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// One round of VFL-SGDMF without noise, of two parties that own an item each. All embeddings
// start at u = v = 2, which predicts 4; user 1 gave item 0 the mark 5 and item 1 the mark 3. Each
// party sends half of its U, and its weight, 1/2.
func ExampleVertical() {
	p := kernel.PartyParams{
		Params: kernel.Params{Items: 2, Rank: 1, MaxRating: 5, StartMean: 4, Seed: 1}, Users: 2, Unit: dp.Rating, Clipping: kernel.EmbeddingClipping,
		Rounds: 1, LocalSteps: 1, SamplingRate: 1, Density: 1, UserRate: 0.02, ItemRate: 0.1,
	}
	release := p.Release(p.Users)
	release.Width = 32
	server := kernel.NewAverage(p, p.StartUsers(2), modelserver.Server{Cohort: protocol.Cohort{Clients: 2},
		Schedule: protocol.Schedule{{Rounds: 1, Phase: release.Name, Releases: []protocol.Release{release}}}})
	plan, _, err := server.Next()
	if err != nil {
		fmt.Println(err)
		return
	}
	sum := make([]float64, release.Len)
	for item, mark := range []float32{5, 3} {
		var party *kernel.Vertical
		party, err = kernel.NewVertical(&p, []int32{int32(item)}, []model.Ratings{{}, {Items: []int32{0}, Values: []float32{mark}}})
		if err != nil {
			fmt.Println(err)
			return
		}
		var sent []protocol.Vector
		sent, err = party.Contribute(plan, simulated.New(1, fmt.Sprint("party/", item)), each{})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("party %d: v = %.2f, sends %.2f\n", item, party.Embeddings().Row(0), sent[0].Value)
		for i, x := range sent[0].Value {
			sum[i] += x
		}
	}
	if err = server.Absorb(plan, protocol.Sums{Values: [][]float64{sum}, Survivors: 2}, each{}); err != nil {
		fmt.Println(err)
		return
	}
	u, err := model.NewBroadcast(server.Model(), 2, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("U = %.2f\n", u.Matrix().Data())
	// Output:
	// party 0: v = [2.20], sends [1.00 1.04 0.50]
	// party 1: v = [1.80], sends [1.00 0.96 0.50]
	// U = [2.00 2.00]
}
