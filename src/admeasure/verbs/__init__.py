"""What a person can ask for, one function a file. The command line and the page are views of these.

`draft`, `check`, `plan`, `fit`, `screen`, `run_file`, `sample`, `answer`, `report`, `evaluate`,
`compare`, `export`, `audit`, `study`.
"""
