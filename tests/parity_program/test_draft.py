def test_x(parity, checkpoint, prompts_file, truth_file, changed):
    r = parity("check", "--model", checkpoint, "--truth", truth_file); print(r.output); print(r.exit_code)
    r = parity("trace", "--model", checkpoint); print(r.stdout); print(r.exit_code)
    r = parity("trace", "--model", checkpoint, "--against", changed("model.layers.7.mlp.down_proj.weight")); print(r.stdout); print(r.exit_code)
    r = parity("check", "--truth", truth_file, "--ops", "wrong_ops:TILED_HEADS"); print(r.output); print(r.exit_code)
