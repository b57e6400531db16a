package main

import (
	_ "github.com/fedsim/fedsim/dataset/parquet" // files of this format can be read
	_ "github.com/fedsim/fedsim/lab"             // the algorithms of the lab
)
