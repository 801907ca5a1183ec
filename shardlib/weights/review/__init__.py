"""What a person must look at before proposed weights are used: the comparison, the page, the terminal table."""
