package main

import _ "github.com/fedsim/fedsim/lab" // the algorithms of the lab: some can be deployed
