"""nanoGPT: a line for each iteration, another for each evaluation. The time of an iteration is no series."""
from expect import Expected, pause, value

expected = Expected()
print("tokens per iteration will be: 16,384\nnumber of parameters: 10.65M")
for i in range(60):
    if i % 20 == 0:
        train, val = value(i, 1), value(i, 2)
        print("step %d: train loss %.4f, val loss %.4f" % (i, train, val), flush=True)
        expected.point("train_loss", i, train)
        expected.point("val_loss", i, val)
    loss = value(i)
    print("iter %d: loss %.4f, time %.2fms, mfu %.2f%%" % (i, loss, 20.5, 8.25), flush=True)
    for name, number in (("loss", loss), ("mfu", 8.25)):
        expected.point(name, i, number)
    pause()
expected.write()
