package model_test

import (
	"fmt"

	"github.com/fedsim/fedsim/model"
)

// A prediction is the inner product of a user's and an item's embedding.
func ExampleFactors() {
	users, items := model.NewMatrix(1, 2), model.NewMatrix(3, 2)
	copy(users.Row(0), []float64{1, 2})
	copy(items.Row(0), []float64{1, 1})
	copy(items.Row(2), []float64{0, 2})
	f := model.Factors{Users: users, Items: items}
	out := make([]float64, 2)
	f.Predict(0, []int32{0, 2}, out)
	fmt.Println(out)
	// Output:
	// [3 4]
}

// A matrix goes to clients as bytes, four for each number.
func ExampleNewBroadcast() {
	m := model.NewMatrix(2, 2)
	copy(m.Row(1), []float64{3, 4})
	shared := m.Encode()
	b, err := model.NewBroadcast(shared, 2, 2)
	fmt.Println(len(shared), b.Matrix().Row(1), err)
	// Output:
	// 16 [3 4] <nil>
}
